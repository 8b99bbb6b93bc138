local counters = {"replicas", "readyReplicas", "updatedReplicas", "availableReplicas", "updatedReadyReplicas", "expectedUpdatedReplicas"}

function GetReplicas(obj)
  return tonumber(obj.spec.replicas) or 1, kube.accuratePodRequirements(obj.spec.template)
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

function GetDependencies(obj)
  return dependencies(obj, {obj.spec.template})
end
