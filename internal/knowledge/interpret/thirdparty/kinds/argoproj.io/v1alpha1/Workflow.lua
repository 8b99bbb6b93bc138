-- A workflow runs at most parallelism pods side by side.
function GetReplicas(obj)
  local template = {spec = {nodeSelector = obj.spec.nodeSelector, tolerations = obj.spec.tolerations, affinity = obj.spec.affinity, containers = {}}}
  return tonumber(obj.spec.parallelism) or 1, kube.accuratePodRequirements(template)
end

function ReviseReplica(obj, replicas)
  obj.spec.parallelism = replicas
  return obj
end

function InterpretHealth(obj)
  local phase = at(obj, "status", "phase")
  return phase ~= "Failed" and phase ~= "Error"
end

function IsFinished(obj)
  return oneOf(at(obj, "status", "phase"), "Succeeded", "Failed", "Error")
end

-- The nodes of a large workflow are too much to carry.
function ReflectStatus(obj)
  return pick(obj, "phase", "message", "progress", "startedAt", "finishedAt", "estimatedDuration", "conditions")
end

function AggregateStatus(obj, items)
  local phase = heaviest(items, "Pending", {"Error", "Failed", "Pending", "Running", "Succeeded"}, "phase")
  obj.status = {
    phase = phase,
    message = first(items, "message"),
    startedAt = extreme(items, "startedAt", false),
    finishedAt = phase == "Succeeded" and extreme(items, "finishedAt", true) or nil,
    conditions = conditions(items, {PodRunning = true, MetricsError = true, SpecError = true, SpecWarning = true, ArtifactGCError = true}),
  }
  return obj
end

function GetDependencies(obj)
  local spec = obj.spec
  local list = {{spec = {serviceAccountName = spec.serviceAccountName, imagePullSecrets = spec.imagePullSecrets, volumes = spec.volumes, containers = {}}}}
  for _, step in ipairs(spec.templates or {}) do
    local containers = {}
    for _, name in ipairs({"container", "script"}) do
      if step[name] ~= nil then table.insert(containers, {name = name, env = step[name].env, envFrom = step[name].envFrom}) end
    end
    table.insert(list, {spec = {serviceAccountName = step.serviceAccountName, volumes = step.volumes, initContainers = step.initContainers, containers = containers}})
  end
  local found = dependencies(obj, list)
  refer(found, obj, "ServiceAccount", at(spec, "executor", "serviceAccountName"))
  return found
end
