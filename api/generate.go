package api

//go:generate go tool -modfile=../hack/tools/go.mod controller-gen object paths=./...
//go:generate go tool -modfile=../hack/tools/go.mod controller-gen crd paths=./apps/...;./autoscaling/...;./config/...;./fleet/...;./multicluster/...;./networking/...;./policy/...;./remedy/...;./search/...;./work/... output:crd:dir=./crds
//go:generate go tool openapi-gen --output-dir cluster/v1alpha1 --output-pkg github.com/flagship-k8s/flagship/api/cluster/v1alpha1 --output-file zz_generated.openapi.go --output-model-name-file zz_generated.model_name.go --go-header-file /dev/null --report-filename /dev/null ./cluster/v1alpha1
//go:generate go tool openapi-gen --output-dir resource/v1alpha2 --output-pkg github.com/flagship-k8s/flagship/api/resource/v1alpha2 --output-file zz_generated.openapi.go --output-model-name-file zz_generated.model_name.go --go-header-file /dev/null --report-filename /dev/null ./resource/v1alpha2
