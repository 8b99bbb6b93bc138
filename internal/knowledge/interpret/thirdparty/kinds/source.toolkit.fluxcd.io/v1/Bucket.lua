function InterpretHealth(obj)
  return reconciled(obj)
end

function ReflectStatus(obj)
  return pick(obj, "observedGeneration", "conditions", "artifact", "url", "observedIgnore")
end

function AggregateStatus(obj, items)
  return foldReady(obj, items, "artifact", "url", "observedIgnore")
end

function GetDependencies(obj)
  local list = {}
  refer(list, obj, "Secret", at(obj, "spec", "secretRef", "name"))
  refer(list, obj, "Secret", at(obj, "spec", "certSecretRef", "name"))
  return list
end
