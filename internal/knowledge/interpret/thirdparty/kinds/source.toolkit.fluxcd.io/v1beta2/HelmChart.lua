function InterpretHealth(obj)
  return reconciled(obj)
end

function ReflectStatus(obj)
  return pick(obj, "observedGeneration", "conditions", "artifact", "url", "observedChartName", "observedSourceArtifactRevision")
end

function AggregateStatus(obj, items)
  return foldReady(obj, items, "artifact", "url", "observedChartName", "observedSourceArtifactRevision")
end

function GetDependencies(obj)
  local list = {}
  refer(list, obj, "Secret", at(obj, "spec", "verify", "secretRef", "name"))
  return list
end
