local counters = {"pending", "running", "succeeded", "failed", "terminating", "unknown", "minAvailable"}

-- A gang starts with minAvailable pods of each task; Volcano sets that to the replicas of the task where it is missing.
function GetComponents(obj)
  local list = {}
  for i, task in ipairs(obj.spec.tasks or {}) do
    table.insert(list, component(task.name or ("task-" .. i), task.minAvailable or task.replicas or 1, task.template))
  end
  return list
end

function InterpretHealth(obj)
  local phase = at(obj, "status", "state", "phase")
  return phase ~= "Failed" and phase ~= "Aborted" and phase ~= "Terminated"
end

function IsFinished(obj)
  return oneOf(at(obj, "status", "state", "phase"), "Completed", "Failed", "Terminated")
end

function ReflectStatus(obj)
  return pick(obj, "state", "version", "runningDuration", unpack(counters))
end

function AggregateStatus(obj, items)
  if #items == 0 then return obj end
  add(obj, items, unpack(counters))
  obj.status.state = {phase = heaviest(items, "Pending", {
    "Failed", "Aborted", "Aborting", "Terminated", "Terminating", "Restarting", "Pending", "Running", "Completing", "Completed",
  }, "state", "phase")}
  return obj
end

function GetDependencies(obj)
  local templates = {}
  for _, task in ipairs(obj.spec.tasks or {}) do table.insert(templates, task.template) end
  local list = dependencies(obj, templates)
  for _, volume in ipairs(obj.spec.volumes or {}) do
    if volume.volumeClaim == nil then refer(list, obj, "PersistentVolumeClaim", volume.volumeClaimName) end
  end
  return list
end
