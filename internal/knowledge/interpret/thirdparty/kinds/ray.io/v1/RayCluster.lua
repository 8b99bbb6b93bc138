local counters = {"readyWorkerReplicas", "availableWorkerReplicas", "desiredWorkerReplicas", "minWorkerReplicas", "maxWorkerReplicas"}

function GetComponents(obj)
  local list = {component("head", 1, obj.spec.headGroupSpec.template)}
  for _, group in ipairs(obj.spec.workerGroupSpecs or {}) do
    table.insert(list, component(group.groupName, tonumber(group.replicas) or group.minReplicas, group.template))
  end
  return list
end

function InterpretHealth(obj)
  if obj.status == nil then return false end
  if obj.status.state == "failed" then return false end
  return obj.status.state == "ready" or obj.status.state == "suspended" or is(obj, "RayClusterProvisioned")
end

function ReflectStatus(obj)
  return pick(obj, "state", "reason", "observedGeneration", "desiredCPU", "desiredMemory", "desiredGPU", "desiredTPU", "endpoints", "head", "conditions", "lastUpdateTime", unpack(counters))
end

function AggregateStatus(obj, items)
  if #items == 0 then return obj end
  local generation = at(obj, "status", "observedGeneration")
  obj.status = {
    state = heaviest(items, "", {"failed", "", "suspended", "ready"}, "state"),
    reason = first(items, "reason"),
    endpoints = first(items, "endpoints"),
    head = first(items, "head"),
    lastUpdateTime = extreme(items, "lastUpdateTime", true),
    observedGeneration = generation,
    conditions = conditions(items, {ReplicaFailure = true, RayClusterSuspending = true}),
  }
  add(obj, items, unpack(counters))
  for _, name in ipairs({"desiredCPU", "desiredMemory", "desiredGPU", "desiredTPU"}) do
    local total
    for _, item in ipairs(items) do
      local value = at(item.status, name)
      if value ~= nil then total = kube.resourceAdd(total, value) end
    end
    obj.status[name] = total
  end
  if obj.status.state == "" then obj.status.state = nil end
  observe(obj, items)
  return obj
end

function GetDependencies(obj)
  local templates = {obj.spec.headGroupSpec.template}
  for _, group in ipairs(obj.spec.workerGroupSpecs or {}) do table.insert(templates, group.template) end
  return dependencies(obj, templates)
end
