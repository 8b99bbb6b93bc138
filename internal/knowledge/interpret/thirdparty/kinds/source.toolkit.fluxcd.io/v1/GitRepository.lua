function InterpretHealth(obj)
  return reconciled(obj)
end

function ReflectStatus(obj)
  return pick(obj, "observedGeneration", "conditions", "artifact", "includedArtifacts", "observedIgnore", "observedRecurseSubmodules")
end

function AggregateStatus(obj, items)
  return foldReady(obj, items, "artifact", "includedArtifacts", "observedIgnore", "observedRecurseSubmodules")
end

function GetDependencies(obj)
  local list = {}
  refer(list, obj, "Secret", at(obj, "spec", "secretRef", "name"))
  refer(list, obj, "Secret", at(obj, "spec", "proxySecretRef", "name"))
  refer(list, obj, "Secret", at(obj, "spec", "verify", "secretRef", "name"))
  return list
end
