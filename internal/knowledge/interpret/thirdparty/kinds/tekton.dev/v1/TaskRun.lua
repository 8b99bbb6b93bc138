-- The condition Succeeded is Unknown until the run ends.
function InterpretHealth(obj)
  return at(condition(obj, "Succeeded"), "status") ~= "False"
end

function IsFinished(obj)
  return oneOf(at(condition(obj, "Succeeded"), "status"), "True", "False")
end

-- The specs and tasks of a run are too much to carry.
function ReflectStatus(obj)
  return pick(obj, "conditions", "startTime", "completionTime")
end

function AggregateStatus(obj, items)
  if #items == 0 then return obj end
  obj.status = {
    conditions = {fold(items, "Succeeded", false)},
    startTime = extreme(items, "startTime", false),
  }
  if is(obj, "Succeeded") then obj.status.completionTime = extreme(items, "completionTime", true) end
  return obj
end
