local counters = {"replicas", "readyReplicas", "updatedReplicas", "updatedReadyReplicas"}

-- template finds the pod template in the one of the kind that the subsets have.
local function template(obj)
  for _, name in ipairs({"deploymentTemplate", "cloneSetTemplate", "statefulSetTemplate", "advancedStatefulSetTemplate"}) do
    local found = at(obj, "spec", "template", name, "spec", "template")
    if found ~= nil then return found end
  end
  return {spec = {}}
end

function GetReplicas(obj)
  return tonumber(obj.spec.replicas) or 1, kube.accuratePodRequirements(template(obj))
end

function ReviseReplica(obj, replicas)
  obj.spec.replicas = replicas
  return obj
end

function InterpretHealth(obj)
  if obj.status == nil or not observed(obj) then return false end
  local updated = number(obj.status.updatedReplicas)
  return updated >= (tonumber(obj.spec.replicas) or 1) and number(obj.status.updatedReadyReplicas) >= updated
end

function ReflectStatus(obj)
  return pick(obj, "observedGeneration", "currentRevision", "subsetReplicas", unpack(counters))
end

function AggregateStatus(obj, items)
  add(obj, items, unpack(counters))
  observe(obj, items)
  obj.status.currentRevision = first(items, "currentRevision")
  local subsets = {}
  for _, item in ipairs(items) do
    for name, replicas in pairs(at(item.status, "subsetReplicas") or {}) do subsets[name] = number(subsets[name]) + replicas end
  end
  obj.status.subsetReplicas = next(subsets) and subsets
  return obj
end

function GetDependencies(obj)
  return dependencies(obj, {template(obj)})
end
