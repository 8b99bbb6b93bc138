package crds

// specs are of kinds whose rules ask for more than their schemas say.
var specs = map[string]string{
	"BackendTLSPolicy": "{targetRefs: [{group: '', kind: Service, name: a}], validation: {hostname: a.example.com, wellKnownCACertificates: System}}",
	"GatewayClass":     "{controllerName: example.com/test}",
	"XMesh":            "{controllerName: example.com/test}",
	"TCPRoute":         "{rules: [{backendRefs: [{name: a, port: 80}]}]}",
	"TLSRoute":         "{hostnames: [a.example.com], rules: [{backendRefs: [{name: a, port: 80}]}]}",
	"UDPRoute":         "{rules: [{backendRefs: [{name: a, port: 80}]}]}",
	"Cluster":          "{paused: true}",
	"ExtensionConfig":  "{clientConfig: {url: 'https://example.com'}}",
	"ClusterClass": "{controlPlane: {templateRef: {apiVersion: example.com/v1, kind: Template, name: a}}, " +
		"infrastructure: {templateRef: {apiVersion: example.com/v1, kind: Template, name: a}}}",
}
