-- cluster is the one the job runs in; a selector leads to one that exists.
local function cluster(obj)
  return obj.spec.rayClusterSpec
end

function GetComponents(obj)
  local spec, list = cluster(obj), {}
  if spec ~= nil then
    table.insert(list, component("head", 1, spec.headGroupSpec.template))
    for _, group in ipairs(spec.workerGroupSpecs or {}) do
      table.insert(list, component(group.groupName, tonumber(group.replicas) or group.minReplicas, group.template))
    end
  end
  if obj.spec.submitterPodTemplate ~= nil then table.insert(list, component("submitter", 1, obj.spec.submitterPodTemplate)) end
  return list
end

function InterpretHealth(obj)
  if at(obj, "status", "jobDeploymentStatus") == "Failed" then return false end
  local state = at(obj, "status", "jobStatus")
  return state ~= "FAILED" and state ~= "STOPPED"
end

function IsFinished(obj)
  return oneOf(at(obj, "status", "jobDeploymentStatus"), "Complete", "Failed")
end

function ReflectStatus(obj)
  return pick(obj, "jobId", "rayClusterName", "dashboardURL", "jobStatus", "jobDeploymentStatus", "reason", "message", "startTime", "endTime", "succeeded", "failed", "observedGeneration")
end

function AggregateStatus(obj, items)
  if #items == 0 then return obj end
  local generation = at(obj, "status", "observedGeneration")
  obj.status = {
    jobId = first(items, "jobId"),
    rayClusterName = first(items, "rayClusterName"),
    dashboardURL = first(items, "dashboardURL"),
    reason = first(items, "reason"),
    message = first(items, "message"),
    jobStatus = heaviest(items, "PENDING", {"FAILED", "STOPPED", "PENDING", "RUNNING", "SUCCEEDED"}, "jobStatus"),
    jobDeploymentStatus = heaviest(items, "Initializing", {"Failed", "ValidationFailed", "Suspending", "Suspended", "Retrying", "Waiting", "Initializing", "Running", "Complete"}, "jobDeploymentStatus"),
    startTime = extreme(items, "startTime", false),
    endTime = extreme(items, "endTime", true),
    observedGeneration = generation,
  }
  add(obj, items, "succeeded", "failed")
  observe(obj, items)
  return obj
end

function GetDependencies(obj)
  local spec, templates = cluster(obj), {}
  if spec ~= nil then
    table.insert(templates, spec.headGroupSpec.template)
    for _, group in ipairs(spec.workerGroupSpecs or {}) do table.insert(templates, group.template) end
  end
  if obj.spec.submitterPodTemplate ~= nil then table.insert(templates, obj.spec.submitterPodTemplate) end
  return dependencies(obj, templates)
end
