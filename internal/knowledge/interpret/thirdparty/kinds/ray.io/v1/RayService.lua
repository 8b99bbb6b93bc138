function GetComponents(obj)
  local spec = obj.spec.rayClusterConfig
  local list = {component("head", 1, spec.headGroupSpec.template)}
  for _, group in ipairs(spec.workerGroupSpecs or {}) do
    table.insert(list, component(group.groupName, tonumber(group.replicas) or group.minReplicas, group.template))
  end
  return list
end

function InterpretHealth(obj)
  if obj.status == nil or not observed(obj) then return false end
  if condition(obj, "Ready") ~= nil then return is(obj, "Ready") end
  return obj.status.serviceStatus == "Running"
end

function ReflectStatus(obj)
  return pick(obj, "observedGeneration", "serviceStatus", "numServeEndpoints", "conditions", "lastUpdateTime", "activeServiceStatus", "pendingServiceStatus")
end

function AggregateStatus(obj, items)
  if #items == 0 then return obj end
  local generation = at(obj, "status", "observedGeneration")
  local running = true
  for _, item in ipairs(items) do running = running and at(item.status, "serviceStatus") == "Running" end
  obj.status = {
    serviceStatus = running and "Running" or "",
    conditions = conditions(items, {UpgradeInProgress = true}),
    lastUpdateTime = extreme(items, "lastUpdateTime", true),
    activeServiceStatus = first(items, "activeServiceStatus"),
    pendingServiceStatus = first(items, "pendingServiceStatus"),
    observedGeneration = generation,
  }
  add(obj, items, "numServeEndpoints")
  observe(obj, items)
  return obj
end

function GetDependencies(obj)
  local spec = obj.spec.rayClusterConfig
  local templates = {spec.headGroupSpec.template}
  for _, group in ipairs(spec.workerGroupSpecs or {}) do table.insert(templates, group.template) end
  return dependencies(obj, templates)
end
