local counters = {
  "currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady", "updatedNumberScheduled",
  "numberAvailable", "numberUnavailable",
}

function InterpretHealth(obj)
  if obj.status == nil or not observed(obj) then return false end
  local updated = number(obj.status.updatedNumberScheduled)
  return updated >= number(obj.status.desiredNumberScheduled) and number(obj.status.numberAvailable) >= updated
end

function ReflectStatus(obj)
  return pick(obj, "observedGeneration", "daemonSetHash", unpack(counters))
end

function AggregateStatus(obj, items)
  add(obj, items, unpack(counters))
  observe(obj, items)
  obj.status.daemonSetHash = first(items, "daemonSetHash")
  return obj
end

function GetDependencies(obj)
  return dependencies(obj, {obj.spec.template})
end
