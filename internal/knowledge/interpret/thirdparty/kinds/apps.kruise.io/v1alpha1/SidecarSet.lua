local counters = {"matchedPods", "updatedPods", "readyPods", "updatedReadyPods"}

function InterpretHealth(obj)
  if obj.status == nil or not observed(obj) then return false end
  local matched = number(obj.status.matchedPods)
  return number(obj.status.updatedPods) >= matched and number(obj.status.readyPods) >= matched
end

function ReflectStatus(obj)
  return pick(obj, "observedGeneration", "latestRevision", unpack(counters))
end

function AggregateStatus(obj, items)
  add(obj, items, unpack(counters))
  observe(obj, items)
  obj.status.latestRevision = first(items, "latestRevision")
  return obj
end
