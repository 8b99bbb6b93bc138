package v1alpha2

// Field numbers are those of Kubernetes 1.30; the gaps were fields of earlier releases and must stay empty.

func (x *ResourceClaimSpec) encode(w *writer) {
	w.text(3, string(x.AllocationMode))
	if x.ParametersRef != nil {
		w.message(2, x.ParametersRef)
	}
	w.text(1, x.ResourceClassName)
}

// Unmarshal reads the message, adding to what is there.
func (x *ResourceClaimSpec) Unmarshal(data []byte) error {
	return eachField(data, func(f wireField) error {
		switch f.number {
		case 1:
			return toText(f, &x.ResourceClassName)
		case 2:
			return toPointer(f, &x.ParametersRef)
		case 3:
			return toText(f, &x.AllocationMode)
		}
		return nil
	})
}

func (x *ResourceClaimParametersReference) encode(w *writer) {
	w.text(3, x.Name)
	w.text(2, x.Kind)
	w.text(1, x.APIGroup)
}

// Unmarshal reads the message, adding to what is there.
func (x *ResourceClaimParametersReference) Unmarshal(data []byte) error {
	return eachField(data, func(f wireField) error {
		switch f.number {
		case 1:
			return toText(f, &x.APIGroup)
		case 2:
			return toText(f, &x.Kind)
		case 3:
			return toText(f, &x.Name)
		}
		return nil
	})
}

func (x *ResourceClaimStatus) encode(w *writer) {
	w.flag(4, x.DeallocationRequested)
	messages(w, 3, x.ReservedFor)
	if x.Allocation != nil {
		w.message(2, x.Allocation)
	}
	w.text(1, x.DriverName)
}

// Unmarshal reads the message, adding to what is there.
func (x *ResourceClaimStatus) Unmarshal(data []byte) error {
	return eachField(data, func(f wireField) error {
		switch f.number {
		case 1:
			return toText(f, &x.DriverName)
		case 2:
			return toPointer(f, &x.Allocation)
		case 3:
			return toList(f, &x.ReservedFor)
		case 4:
			return f.toFlag(&x.DeallocationRequested)
		}
		return nil
	})
}

func (x *AllocationResult) encode(w *writer) {
	w.flag(3, x.Shareable)
	if x.AvailableOnNodes != nil {
		w.foreign(2, x.AvailableOnNodes)
	}
	messages(w, 1, x.ResourceHandles)
}

// Unmarshal reads the message, adding to what is there.
func (x *AllocationResult) Unmarshal(data []byte) error {
	return eachField(data, func(f wireField) error {
		switch f.number {
		case 1:
			return toList(f, &x.ResourceHandles)
		case 2:
			return toPointer(f, &x.AvailableOnNodes)
		case 3:
			return f.toFlag(&x.Shareable)
		}
		return nil
	})
}

func (x *ResourceHandle) encode(w *writer) {
	if x.StructuredData != nil {
		w.message(5, x.StructuredData)
	}
	w.text(2, x.Data)
	w.text(1, x.DriverName)
}

// Unmarshal reads the message, adding to what is there.
func (x *ResourceHandle) Unmarshal(data []byte) error {
	return eachField(data, func(f wireField) error {
		switch f.number {
		case 1:
			return toText(f, &x.DriverName)
		case 2:
			return toText(f, &x.Data)
		case 5:
			return toPointer(f, &x.StructuredData)
		}
		return nil
	})
}

func (x *ResourceClaimConsumerReference) encode(w *writer) {
	w.text(5, string(x.UID))
	w.text(4, x.Name)
	w.text(3, x.Resource)
	w.text(1, x.APIGroup)
}

// Unmarshal reads the message, adding to what is there.
func (x *ResourceClaimConsumerReference) Unmarshal(data []byte) error {
	return eachField(data, func(f wireField) error {
		switch f.number {
		case 1:
			return toText(f, &x.APIGroup)
		case 3:
			return toText(f, &x.Resource)
		case 4:
			return toText(f, &x.Name)
		case 5:
			return toText(f, &x.UID)
		}
		return nil
	})
}

func (x *ResourceClaimTemplateSpec) encode(w *writer) {
	w.message(2, &x.Spec)
	w.foreign(1, &x.ObjectMeta)
}

// Unmarshal reads the message, adding to what is there.
func (x *ResourceClaimTemplateSpec) Unmarshal(data []byte) error {
	return eachField(data, func(f wireField) error {
		switch f.number {
		case 1:
			return f.toMessage(&x.ObjectMeta)
		case 2:
			return f.toMessage(&x.Spec)
		}
		return nil
	})
}

func (x *ResourceClassParametersReference) encode(w *writer) {
	w.text(4, x.Namespace)
	w.text(3, x.Name)
	w.text(2, x.Kind)
	w.text(1, x.APIGroup)
}

// Unmarshal reads the message, adding to what is there.
func (x *ResourceClassParametersReference) Unmarshal(data []byte) error {
	return eachField(data, func(f wireField) error {
		switch f.number {
		case 1:
			return toText(f, &x.APIGroup)
		case 2:
			return toText(f, &x.Kind)
		case 3:
			return toText(f, &x.Name)
		case 4:
			return toText(f, &x.Namespace)
		}
		return nil
	})
}

func (x *PodSchedulingContextSpec) encode(w *writer) {
	texts(w, 2, x.PotentialNodes)
	w.text(1, x.SelectedNode)
}

// Unmarshal reads the message, adding to what is there.
func (x *PodSchedulingContextSpec) Unmarshal(data []byte) error {
	return eachField(data, func(f wireField) error {
		switch f.number {
		case 1:
			return toText(f, &x.SelectedNode)
		case 2:
			return toTexts(f, &x.PotentialNodes)
		}
		return nil
	})
}

func (x *PodSchedulingContextStatus) encode(w *writer) {
	messages(w, 1, x.ResourceClaims)
}

// Unmarshal reads the message, adding to what is there.
func (x *PodSchedulingContextStatus) Unmarshal(data []byte) error {
	return eachField(data, func(f wireField) error {
		switch f.number {
		case 1:
			return toList(f, &x.ResourceClaims)
		}
		return nil
	})
}

func (x *ResourceClaimSchedulingStatus) encode(w *writer) {
	texts(w, 2, x.UnsuitableNodes)
	w.text(1, x.Name)
}

// Unmarshal reads the message, adding to what is there.
func (x *ResourceClaimSchedulingStatus) Unmarshal(data []byte) error {
	return eachField(data, func(f wireField) error {
		switch f.number {
		case 1:
			return toText(f, &x.Name)
		case 2:
			return toTexts(f, &x.UnsuitableNodes)
		}
		return nil
	})
}

func (x *StructuredResourceHandle) encode(w *writer) {
	messages(w, 5, x.Results)
	w.text(4, x.NodeName)
	w.foreign(2, &x.VendorClaimParameters)
	w.foreign(1, &x.VendorClassParameters)
}

// Unmarshal reads the message, adding to what is there.
func (x *StructuredResourceHandle) Unmarshal(data []byte) error {
	return eachField(data, func(f wireField) error {
		switch f.number {
		case 1:
			return f.toMessage(&x.VendorClassParameters)
		case 2:
			return f.toMessage(&x.VendorClaimParameters)
		case 4:
			return toText(f, &x.NodeName)
		case 5:
			return toList(f, &x.Results)
		}
		return nil
	})
}

func (x *DriverAllocationResult) encode(w *writer) {
	w.message(2, &x.AllocationResultModel)
	w.foreign(1, &x.VendorRequestParameters)
}

// Unmarshal reads the message, adding to what is there.
func (x *DriverAllocationResult) Unmarshal(data []byte) error {
	return eachField(data, func(f wireField) error {
		switch f.number {
		case 1:
			return f.toMessage(&x.VendorRequestParameters)
		case 2:
			return f.toMessage(&x.AllocationResultModel)
		}
		return nil
	})
}

func (x *AllocationResultModel) encode(w *writer) {
	if x.NamedResources != nil {
		w.message(1, x.NamedResources)
	}
}

// Unmarshal reads the message, adding to what is there.
func (x *AllocationResultModel) Unmarshal(data []byte) error {
	return eachField(data, func(f wireField) error {
		switch f.number {
		case 1:
			return toPointer(f, &x.NamedResources)
		}
		return nil
	})
}

func (x *NamedResourcesAllocationResult) encode(w *writer) {
	w.text(1, x.Name)
}

// Unmarshal reads the message, adding to what is there.
func (x *NamedResourcesAllocationResult) Unmarshal(data []byte) error {
	return eachField(data, func(f wireField) error {
		switch f.number {
		case 1:
			return toText(f, &x.Name)
		}
		return nil
	})
}
