function InterpretHealth(obj)
  return reconciled(obj)
end

function ReflectStatus(obj)
  return pick(obj, "observedGeneration", "conditions", "lastAppliedRevision", "lastAttemptedRevision", "inventory")
end

function AggregateStatus(obj, items)
  return foldReady(obj, items, "lastAppliedRevision", "lastAttemptedRevision", "inventory")
end

function GetDependencies(obj)
  local list = {}
  refer(list, obj, "ServiceAccount", obj.spec.serviceAccountName)
  refer(list, obj, "Secret", at(obj, "spec", "kubeConfig", "secretRef", "name"))
  refer(list, obj, "Secret", at(obj, "spec", "decryption", "secretRef", "name"))
  for _, source in ipairs(at(obj, "spec", "postBuild", "substituteFrom") or {}) do refer(list, obj, source.kind, source.name) end
  return list
end
