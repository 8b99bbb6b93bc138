-- part is a job manager or task manager; Flink writes memory as 2048m or 2g,
-- meaning mebibytes and gibibytes.
local function part(name, spec, template, replicas)
  local pod = at(spec, "podTemplate", "spec") or at(template, "spec") or {}
  local resource = spec.resource or {}
  local request = {cpu = resource.cpu}
  if resource.memory ~= nil then
    local value, unit = tostring(resource.memory):lower():match("^%s*(%d+)%s*(%a*)$")
    local units = {[""] = "", b = "", k = "Ki", kb = "Ki", m = "Mi", mb = "Mi", g = "Gi", gb = "Gi", t = "Ti", tb = "Ti", mi = "Mi", gi = "Gi"}
    if value ~= nil and units[unit] ~= nil then request.memory = value .. units[unit] end
  end
  local requirements = kube.accuratePodRequirements({spec = {
    nodeSelector = pod.nodeSelector, tolerations = pod.tolerations, affinity = pod.affinity,
    containers = {{name = "main", resources = {requests = request}}},
  }})
  return {name = name, replicas = replicas, replicaRequirements = requirements}
end

-- Without a number of task managers there are as many as the parallelism of the
-- job needs slots.
local function taskManagers(obj)
  local replicas = tonumber(at(obj, "spec", "taskManager", "replicas"))
  if replicas ~= nil then return replicas end
  local slots = tonumber(at(obj, "spec", "flinkConfiguration", "taskmanager.numberOfTaskSlots")) or 1
  return math.ceil((tonumber(at(obj, "spec", "job", "parallelism")) or 1) / slots)
end

function GetComponents(obj)
  local template = obj.spec.podTemplate
  return {
    part("jobmanager", obj.spec.jobManager or {}, template, tonumber(at(obj, "spec", "jobManager", "replicas")) or 1),
    part("taskmanager", obj.spec.taskManager or {}, template, taskManagers(obj)),
  }
end

function InterpretHealth(obj)
  if obj.status == nil then return false end
  local state = at(obj.status, "jobStatus", "state")
  if at(obj.status, "lifecycleState") == "FAILED" or state == "FAILED" or state == "FAILING" then return false end
  if state == nil then return obj.status.jobManagerDeploymentStatus == "READY" end
  return state == "RUNNING" or state == "FINISHED" or state == "SUSPENDED" or state == "CANCELED"
end

function ReflectStatus(obj)
  return pick(obj, "observedGeneration", "clusterInfo", "error", "jobManagerDeploymentStatus", "jobStatus", "lifecycleState", "reconciliationStatus", "taskManager")
end

function AggregateStatus(obj, items)
  if #items == 0 then return obj end
  obj.status = {
    clusterInfo = first(items, "clusterInfo"),
    error = first(items, "error"),
    jobStatus = first(items, "jobStatus"),
    reconciliationStatus = first(items, "reconciliationStatus"),
    taskManager = first(items, "taskManager"),
    jobManagerDeploymentStatus = heaviest(items, "DEPLOYING", {"ERROR", "MISSING", "DEPLOYING", "DEPLOYED_NOT_READY", "READY"}, "jobManagerDeploymentStatus"),
    lifecycleState = heaviest(items, "CREATED", {"FAILED", "ROLLING_BACK", "ROLLED_BACK", "UPGRADING", "SUSPENDED", "CREATED", "DEPLOYED", "STABLE", "DELETING", "DELETED"}, "lifecycleState"),
    observedGeneration = obj.status and obj.status.observedGeneration,
  }
  observe(obj, items)
  return obj
end

function GetDependencies(obj)
  local templates = {}
  for _, template in ipairs({obj.spec.podTemplate or {}, at(obj, "spec", "jobManager", "podTemplate") or {}, at(obj, "spec", "taskManager", "podTemplate") or {}}) do
    if template.spec ~= nil then table.insert(templates, template) end
  end
  local list = dependencies(obj, templates)
  if obj.spec.serviceAccount ~= "default" then refer(list, obj, "ServiceAccount", obj.spec.serviceAccount) end
  return list
end
