local kube = require("kube")

-- number reads a count that may be missing.
local function number(value)
  return tonumber(value) or 0
end

-- at follows names into an object; nil as soon as one is missing.
local function at(value, ...)
  for _, name in ipairs({...}) do
    if type(value) ~= "table" then return nil end
    value = value[name]
  end
  return value
end

-- pick copies fields of the status, with the generations that tell which spec
-- they are about.
local function pick(obj, ...)
  if obj.status == nil then return nil end
  local status = {}
  for _, name in ipairs({...}) do status[name] = obj.status[name] end
  status.generation = obj.metadata.generation
  status.resourceTemplateGeneration = tonumber(at(obj, "metadata", "annotations", "resourcetemplate.karmada.io/generation"))
  return status
end

-- sum adds a counter up over all clusters.
local function sum(items, ...)
  local total = 0
  for _, item in ipairs(items) do total = total + number(at(item.status, ...)) end
  return total
end

-- add writes the sums of counters into the template's status.
local function add(obj, items, ...)
  if obj.status == nil then obj.status = {} end
  for _, name in ipairs({...}) do obj.status[name] = sum(items, name) end
end

-- first returns the value of the first cluster that has one.
local function first(items, ...)
  for _, item in ipairs(items) do
    local value = at(item.status, ...)
    if value ~= nil then return value end
  end
end

-- extreme returns the earliest or the latest of times, which are text.
local function extreme(items, name, latest)
  local best
  for _, item in ipairs(items) do
    local value = at(item.status, name)
    if value ~= nil and (best == nil or latest == (value > best) and value ~= best) then best = value end
  end
  return best
end

-- joined puts the lists of all clusters behind one another.
local function joined(items, name)
  local list = {}
  for _, item in ipairs(items) do
    for _, value in ipairs(at(item.status, name) or {}) do table.insert(list, value) end
  end
  if #list > 0 then return list end
end

-- observe takes over the template's generation once every cluster has seen it.
local function observe(obj, items)
  local generation = number(obj.metadata.generation)
  for _, item in ipairs(items) do
    if item.status == nil or number(item.status.observedGeneration) < number(item.status.generation) or
      number(item.status.resourceTemplateGeneration) < generation then return end
  end
  if #items > 0 then obj.status.observedGeneration = obj.metadata.generation end
end

-- observed tells whether the controller has seen the current spec.
local function observed(obj)
  return number(at(obj, "status", "observedGeneration")) >= number(obj.metadata.generation)
end

-- rolledOut judges workloads as the one for Deployments does.
local function rolledOut(obj)
  if obj.status == nil or not observed(obj) then return false end
  local updated = number(obj.status.updatedReplicas)
  return updated >= (tonumber(at(obj, "spec", "replicas")) or 1) and number(obj.status.availableReplicas) >= updated
end

-- condition finds a condition by its type.
local function condition(obj, name)
  for _, entry in ipairs(at(obj, "status", "conditions") or {}) do
    if entry.type == name then return entry end
  end
end

-- is tells whether a condition is True.
local function is(obj, name)
  local entry = condition(obj, name)
  return entry ~= nil and entry.status == "True"
end

-- oneOf tells whether a value is one of others.
local function oneOf(value, ...)
  for _, other in ipairs({...}) do
    if value == other then return true end
  end
  return false
end

-- fold is one condition of all clusters: bad ones are True if they are so
-- anywhere, good ones only if they are so everywhere.
local function fold(items, name, bad)
  local result, messages = nil, {}
  local weight = bad and {True = 3, Unknown = 2, False = 1} or {False = 3, Unknown = 2, True = 1}
  for _, item in ipairs(items) do
    local entry = condition(item, name) or {status = bad and "False" or "Unknown", reason = "NotReported"}
    if result == nil or (weight[entry.status] or 2) > (weight[result.status] or 2) then
      result = {type = name, status = entry.status, reason = entry.reason, lastTransitionTime = result and result.lastTransitionTime}
    end
    local time = entry.lastTransitionTime
    if time ~= nil and (result.lastTransitionTime == nil or time > result.lastTransitionTime) then result.lastTransitionTime = time end
    if entry.message ~= nil and entry.message ~= "" then table.insert(messages, item.clusterName .. ": " .. entry.message) end
  end
  if result ~= nil then result.message = table.concat(messages, "; ") end
  return result
end

-- conditions folds all conditions that some cluster reports.
local function conditions(items, bad)
  local seen, list = {}, {}
  for _, item in ipairs(items) do
    for _, entry in ipairs(at(item.status, "conditions") or {}) do
      if not seen[entry.type] then
        seen[entry.type] = true
        table.insert(list, fold(items, entry.type, bad[entry.type] or false))
      end
    end
  end
  if #list > 0 then return list end
end

-- heaviest returns the first state of the order that some cluster has; one that
-- has not reported is in the state silence.
local function heaviest(items, silence, order, ...)
  for _, state in ipairs(order) do
    for _, item in ipairs(items) do
      if (at(item.status, ...) or silence) == state then return state end
    end
  end
end

-- component is one part of a workload with several pod templates.
local function component(name, replicas, template)
  return {name = name, replicas = number(replicas), replicaRequirements = template and kube.accuratePodRequirements(template)}
end

-- dependencies lists what the pods of templates need, in the object's namespace.
local function dependencies(obj, templates)
  local list = {}
  for _, template in ipairs(templates) do
    for _, dependency in ipairs(kube.getPodDependencies(template, obj.metadata.namespace)) do table.insert(list, dependency) end
  end
  return list
end

-- refer adds one object in the namespace to a list of dependencies.
local function refer(list, obj, kind, name)
  if name ~= nil and name ~= "" then
    table.insert(list, {apiVersion = "v1", kind = kind, namespace = obj.metadata.namespace, name = name})
  end
end

-- reconciled judges kinds that follow the conventions of kstatus.
local function reconciled(obj)
  return obj.status ~= nil and observed(obj) and is(obj, "Ready") and not is(obj, "Stalled")
end

-- foldReady folds the status of such a kind: its conditions, and of other fields
-- the value of the first cluster that has one.
local function foldReady(obj, items, ...)
  if #items == 0 then return obj end
  local generation = at(obj, "status", "observedGeneration")
  obj.status = {observedGeneration = generation, conditions = conditions(items, {Stalled = true, Reconciling = true})}
  for _, name in ipairs({...}) do obj.status[name] = first(items, name) end
  observe(obj, items)
  return obj
end

-- parts are the components of a training job: one for each type of replica.
local function parts(specs)
  local list = {}
  for name, spec in pairs(specs or {}) do
    table.insert(list, component(name:lower(), spec.replicas or 1, spec.template))
  end
  table.sort(list, function(a, b) return a.name < b.name end)
  return list
end

-- templatesOf are the pod templates of these.
local function templatesOf(specs)
  local list = {}
  for _, spec in pairs(specs or {}) do
    if spec.template ~= nil then table.insert(list, spec.template) end
  end
  return list
end

-- foldTraining folds the status of a training job.
local function foldTraining(obj, items)
  if #items == 0 then return obj end
  local replicas = {}
  for _, item in ipairs(items) do
    for name, counters in pairs(at(item.status, "replicaStatuses") or {}) do
      if replicas[name] == nil then replicas[name] = {} end
      for _, counter in ipairs({"active", "succeeded", "failed"}) do
        if counters[counter] ~= nil then replicas[name][counter] = number(replicas[name][counter]) + counters[counter] end
      end
    end
  end
  obj.status = {
    conditions = conditions(items, {Failed = true, Restarting = true, Running = true, Created = true, Suspended = true}),
    replicaStatuses = next(replicas) and replicas or nil,
    startTime = extreme(items, "startTime", false),
  }
  if is(obj, "Succeeded") then obj.status.completionTime = extreme(items, "completionTime", true) end
  return obj
end
