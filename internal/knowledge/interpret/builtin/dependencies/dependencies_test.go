package dependencies_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/flagship-k8s/flagship/internal/knowledge/interpret/builtin/dependencies"
)

func TestSecretsOfVolumeDrivers(t *testing.T) {
	local := func(name string) *corev1.LocalObjectReference { return &corev1.LocalObjectReference{Name: name} }
	spec := &corev1.PodSpec{Volumes: []corev1.Volume{
		{VolumeSource: corev1.VolumeSource{AzureFile: &corev1.AzureFileVolumeSource{SecretName: "azure"}}},
		{VolumeSource: corev1.VolumeSource{CephFS: &corev1.CephFSVolumeSource{SecretRef: local("cephfs")}}},
		{VolumeSource: corev1.VolumeSource{Cinder: &corev1.CinderVolumeSource{SecretRef: local("cinder")}}},
		{VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{NodePublishSecretRef: local("csi")}}},
		{VolumeSource: corev1.VolumeSource{FlexVolume: &corev1.FlexVolumeSource{SecretRef: local("flex")}}},
		{VolumeSource: corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{SecretRef: local("iscsi")}}},
		{VolumeSource: corev1.VolumeSource{RBD: &corev1.RBDVolumeSource{SecretRef: local("rbd")}}},
		{VolumeSource: corev1.VolumeSource{ScaleIO: &corev1.ScaleIOVolumeSource{SecretRef: local("scaleio")}}},
		{VolumeSource: corev1.VolumeSource{StorageOS: &corev1.StorageOSVolumeSource{SecretRef: local("storageos")}}},
		{VolumeSource: corev1.VolumeSource{RBD: &corev1.RBDVolumeSource{}}}, // no Secret
	}}
	var names []string
	for _, dependency := range dependencies.OfPod(spec, "shop") {
		if dependency.Kind != "Secret" || dependency.Namespace != "shop" {
			t.Errorf("%+v is no Secret of the namespace", dependency)
		}
		names = append(names, dependency.Name)
	}
	want := []string{"azure", "cephfs", "cinder", "csi", "flex", "iscsi", "rbd", "scaleio", "storageos"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestResourceClaimsOfBothVersions(t *testing.T) {
	claim, template, empty := "claim", "template", ""
	spec := &corev1.PodSpec{ResourceClaims: []corev1.PodResourceClaim{
		{ResourceClaimName: &claim}, {ResourceClaimTemplateName: &template}, {ResourceClaimName: &claim}, {ResourceClaimName: &empty},
	}}
	var got []string
	for _, d := range dependencies.OfPod(spec, "shop") {
		got = append(got, d.APIVersion+" "+d.Kind+" "+d.Name)
	}
	slices.Sort(got)
	want := []string{
		"resource.k8s.io/v1 ResourceClaim claim", "resource.k8s.io/v1 ResourceClaimTemplate template",
		"resource.k8s.io/v1alpha2 ResourceClaim claim", "resource.k8s.io/v1alpha2 ResourceClaimTemplate template",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
