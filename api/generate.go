package api

//go:generate go tool controller-gen object paths=./...
//go:generate go tool controller-gen crd paths=./apps/...;./autoscaling/...;./config/...;./multicluster/...;./networking/...;./policy/...;./remedy/...;./work/... output:crd:dir=./crds
