function InterpretHealth(obj)
  return not is(obj, "Failed")
end

function IsFinished(obj)
  return is(obj, "Completed") or is(obj, "Failed")
end

function ReflectStatus(obj)
  return pick(obj, "conditions", "restarts", "terminalState", "replicatedJobsStatus")
end

function AggregateStatus(obj, items)
  if #items == 0 then return obj end
  obj.status = {
    conditions = conditions(items, {Failed = true, Suspended = true, StartupPolicyInProgress = true}),
    restarts = sum(items, "restarts"),
  }
  if is(obj, "Failed") then
    obj.status.terminalState = "Failed"
  elseif is(obj, "Completed") then
    obj.status.terminalState = "Completed"
  end
  return obj
end

function GetDependencies(obj)
  local templates = {}
  for _, job in ipairs(obj.spec.replicatedJobs or {}) do
    table.insert(templates, at(job, "template", "spec", "template"))
  end
  return dependencies(obj, templates)
end
