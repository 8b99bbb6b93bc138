local counters = {"active", "succeeded", "failed", "desired"}

function InterpretHealth(obj)
  return at(obj, "status", "phase") ~= "failed" and not is(obj, "Failed")
end

function IsFinished(obj)
  return oneOf(at(obj, "status", "phase"), "completed", "failed")
end

function ReflectStatus(obj)
  return pick(obj, "phase", "conditions", "startTime", "completionTime", unpack(counters))
end

function AggregateStatus(obj, items)
  add(obj, items, unpack(counters))
  obj.status.phase = heaviest(items, "running", {"failed", "paused", "running", "completed"}, "phase")
  obj.status.startTime = extreme(items, "startTime", false)
  obj.status.completionTime = obj.status.phase == "completed" and extreme(items, "completionTime", true) or nil
  obj.status.conditions = conditions(items, {Failed = true})
  return obj
end

function GetDependencies(obj)
  return dependencies(obj, {obj.spec.template})
end
