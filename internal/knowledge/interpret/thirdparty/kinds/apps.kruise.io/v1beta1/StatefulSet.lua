local counters = {"replicas", "readyReplicas", "updatedReplicas", "availableReplicas", "updatedReadyReplicas", "currentReplicas", "updatedAvailableReplicas"}

function GetReplicas(obj)
  return tonumber(obj.spec.replicas) or 1, kube.accuratePodRequirements(obj.spec.template), "Named"
end

function ReviseReplica(obj, replicas)
  obj.spec.replicas = replicas
  return obj
end

function InterpretHealth(obj)
  return rolledOut(obj)
end

function ReflectStatus(obj)
  return pick(obj, "observedGeneration", "currentRevision", "updateRevision", "labelSelector", unpack(counters))
end

function AggregateStatus(obj, items)
  add(obj, items, unpack(counters))
  observe(obj, items)
  obj.status.currentRevision = first(items, "currentRevision")
  obj.status.updateRevision = first(items, "updateRevision")
  obj.status.labelSelector = first(items, "labelSelector")
  return obj
end

-- The set makes the claims of its own templates.
function GetDependencies(obj)
  local own, list = {}, {}
  for _, claim in ipairs(obj.spec.volumeClaimTemplates or {}) do own[claim.metadata.name] = true end
  for _, dependency in ipairs(dependencies(obj, {obj.spec.template})) do
    if dependency.kind ~= "PersistentVolumeClaim" or not own[dependency.name] then table.insert(list, dependency) end
  end
  return list
end
