function InterpretHealth(obj)
  return reconciled(obj)
end

function ReflectStatus(obj)
  return pick(obj, "observedGeneration", "conditions", "lastAppliedRevision", "lastAttemptedRevision", "lastAttemptedValuesChecksum", "lastReleaseRevision", "helmChart", "failures", "installFailures", "upgradeFailures")
end

function AggregateStatus(obj, items)
  return foldReady(obj, items, "lastAppliedRevision", "lastAttemptedRevision", "lastAttemptedValuesChecksum", "lastReleaseRevision", "helmChart", "failures", "installFailures", "upgradeFailures")
end

function GetDependencies(obj)
  local list = {}
  refer(list, obj, "ServiceAccount", obj.spec.serviceAccountName)
  refer(list, obj, "Secret", at(obj, "spec", "kubeConfig", "secretRef", "name"))
  refer(list, obj, "Secret", at(obj, "spec", "chart", "spec", "verify", "secretRef", "name"))
  for _, values in ipairs(obj.spec.valuesFrom or {}) do refer(list, obj, values.kind, values.name) end
  return list
end
