package resourceclaims

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	resourcev1alpha2 "github.com/flagship-k8s/flagship/api/resource/v1alpha2"
)

// noDriver stands for the driver of an allocation that needed no device.
const noDriver = "none.flagship.io"

// todaysStatus is the part of a claim's status that today's versions have in common and v1alpha2 has a place for.
type todaysStatus struct {
	Allocation *struct {
		Devices struct {
			Results []map[string]any `json:"results"`
		} `json:"devices"`
		NodeSelector *corev1.NodeSelector `json:"nodeSelector"`
	} `json:"allocation"`
	ReservedFor []resourcev1alpha2.ResourceClaimConsumerReference `json:"reservedFor"`
}

// reflectClaim carries the status of a claim in one of today's versions: as it is, or in terms of v1alpha2 if the claim
// stands for one of those.
func reflectClaim(_ context.Context, obj *unstructured.Unstructured) (*runtime.RawExtension, error) {
	status := obj.Object["status"]
	if status == nil {
		return nil, nil
	}
	raw, err := json.Marshal(status)
	if err != nil {
		return nil, fmt.Errorf("encoding the status: %w", err)
	}
	if obj.GetAnnotations()[resourcev1alpha2.TranslatedFromAnnotation] != resourcev1alpha2.GroupVersion.String() {
		return &runtime.RawExtension{Raw: raw}, nil
	}
	back, err := translateBack(raw)
	if err != nil {
		return nil, err
	}
	if raw, err = json.Marshal(back); err != nil {
		return nil, fmt.Errorf("encoding the status: %w", err)
	}
	return &runtime.RawExtension{Raw: raw}, nil
}

// translateBack converts the status of a translated claim to v1alpha2: a handle for each device, whose
// data is the result as JSON. Any number of consumers may share an allocation of today's model; more of them than
// v1alpha2 can hold are left out.
func translateBack(raw []byte) (*resourcev1alpha2.ResourceClaimStatus, error) {
	var theirs todaysStatus
	if err := json.Unmarshal(raw, &theirs); err != nil {
		return nil, fmt.Errorf("reading the status: %w", err)
	}
	ours := &resourcev1alpha2.ResourceClaimStatus{}
	if theirs.Allocation == nil {
		return ours, nil
	}
	ours.DriverName = noDriver
	ours.Allocation = &resourcev1alpha2.AllocationResult{AvailableOnNodes: theirs.Allocation.NodeSelector, Shareable: true}
	for i, result := range theirs.Allocation.Devices.Results {
		handle, err := handleOf(result)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			ours.DriverName = handle.DriverName
		}
		ours.Allocation.ResourceHandles = append(ours.Allocation.ResourceHandles, handle)
	}
	ours.ReservedFor = theirs.ReservedFor[:min(len(theirs.ReservedFor), resourcev1alpha2.MaxReservedFor)]
	return ours, nil
}

// handleOf returns the handle of one allocated device. What does not fit beside its name is left out.
func handleOf(result map[string]any) (resourcev1alpha2.ResourceHandle, error) {
	driver, _ := result["driver"].(string)
	data := make(map[string]any, len(result))
	for key, value := range result {
		if key != "driver" {
			data[key] = value
		}
	}
	text, err := json.Marshal(data)
	if err == nil && len(text) > resourcev1alpha2.MaxResourceHandleData {
		text, err = json.Marshal(map[string]any{"request": result["request"], "pool": result["pool"], "device": result["device"]})
	}
	if err != nil {
		return resourcev1alpha2.ResourceHandle{}, fmt.Errorf("encoding an allocated device: %w", err)
	}
	return resourcev1alpha2.ResourceHandle{DriverName: driver, Data: string(text)}, nil
}
