-- part is the driver or the executors. Spark writes memory as 512m or 4g,
-- meaning mebibytes and gibibytes.
local function part(name, spec, replicas)
  local request = {cpu = spec.coreRequest or spec.cores}
  if spec.memory ~= nil then
    local value, unit = tostring(spec.memory):lower():match("^%s*(%d+)%s*(%a*)$")
    local units = {[""] = "", k = "Ki", kb = "Ki", m = "Mi", mb = "Mi", g = "Gi", gb = "Gi", t = "Ti", tb = "Ti", mi = "Mi", gi = "Gi"}
    if value ~= nil and units[unit] ~= nil then request.memory = value .. units[unit] end
  end
  if spec.gpu ~= nil then request[spec.gpu.name] = spec.gpu.quantity end
  local pod = at(spec, "template", "spec") or {}
  return component(name, replicas, {spec = {
    nodeSelector = spec.nodeSelector or pod.nodeSelector,
    tolerations = spec.tolerations or pod.tolerations,
    affinity = spec.affinity or pod.affinity,
    priorityClassName = spec.priorityClassName,
    containers = {{name = "main", resources = {requests = request}}},
  }})
end

function GetComponents(obj)
  return {
    part("driver", obj.spec.driver or {}, 1),
    part("executor", obj.spec.executor or {}, tonumber(at(obj, "spec", "executor", "instances")) or 1),
  }
end

function InterpretHealth(obj)
  local state = at(obj, "status", "applicationState", "state")
  return state ~= nil and state ~= "FAILED" and state ~= "SUBMISSION_FAILED" and state ~= "FAILING" and state ~= "UNKNOWN"
end

function IsFinished(obj)
  return oneOf(at(obj, "status", "applicationState", "state"), "COMPLETED", "FAILED")
end

function ReflectStatus(obj)
  return pick(obj, "applicationState", "driverInfo", "executionAttempts", "executorState", "lastSubmissionAttemptTime", "sparkApplicationId", "submissionAttempts", "submissionID", "terminationTime")
end

function AggregateStatus(obj, items)
  if #items == 0 then return obj end
  local executors = {}
  for _, item in ipairs(items) do
    for name, state in pairs(at(item.status, "executorState") or {}) do executors[name] = state end
  end
  obj.status = {
    applicationState = {
      state = heaviest(items, "", {"FAILED", "SUBMISSION_FAILED", "FAILING", "UNKNOWN", "INVALIDATING", "PENDING_RERUN", "", "SUBMITTED", "RUNNING", "SUCCEEDING", "COMPLETED"}, "applicationState", "state"),
      errorMessage = first(items, "applicationState", "errorMessage"),
    },
    driverInfo = first(items, "driverInfo") or {},
    executorState = next(executors) and executors or nil,
    executionAttempts = sum(items, "executionAttempts"),
    submissionAttempts = sum(items, "submissionAttempts"),
    lastSubmissionAttemptTime = extreme(items, "lastSubmissionAttemptTime", true),
    terminationTime = extreme(items, "terminationTime", true),
    sparkApplicationId = first(items, "sparkApplicationId"),
    submissionID = first(items, "submissionID"),
  }
  return obj
end

function GetDependencies(obj)
  local templates = {}
  for _, name in ipairs({"driver", "executor"}) do
    local spec = obj.spec[name] or {}
    local volumes = {}
    for _, volume in ipairs(obj.spec.volumes or {}) do table.insert(volumes, volume) end
    for _, reference in ipairs(spec.configMaps or {}) do table.insert(volumes, {name = reference.name, configMap = {name = reference.name}}) end
    for _, reference in ipairs(spec.secrets or {}) do table.insert(volumes, {name = reference.name, secret = {secretName = reference.name}}) end
    local secrets = {}
    for _, reference in ipairs(obj.spec.imagePullSecrets or {}) do table.insert(secrets, {name = reference}) end
    table.insert(templates, {spec = {
      serviceAccountName = spec.serviceAccount, imagePullSecrets = secrets, volumes = volumes,
      containers = {{name = "main", env = spec.env, envFrom = spec.envFrom}},
    }})
  end
  local list = dependencies(obj, templates)
  refer(list, obj, "ConfigMap", obj.spec.sparkConfigMap)
  refer(list, obj, "ConfigMap", obj.spec.hadoopConfigMap)
  return list
end
