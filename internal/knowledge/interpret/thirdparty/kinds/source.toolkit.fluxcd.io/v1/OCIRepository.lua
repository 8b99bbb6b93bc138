function InterpretHealth(obj)
  return reconciled(obj)
end

function ReflectStatus(obj)
  return pick(obj, "observedGeneration", "conditions", "artifact", "url", "observedIgnore", "observedLayerSelector")
end

function AggregateStatus(obj, items)
  return foldReady(obj, items, "artifact", "url", "observedIgnore", "observedLayerSelector")
end

function GetDependencies(obj)
  local list = {}
  refer(list, obj, "Secret", at(obj, "spec", "secretRef", "name"))
  refer(list, obj, "Secret", at(obj, "spec", "certSecretRef", "name"))
  refer(list, obj, "Secret", at(obj, "spec", "verify", "secretRef", "name"))
  refer(list, obj, "ServiceAccount", obj.spec.serviceAccountName)
  return list
end
