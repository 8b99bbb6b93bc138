package v1alpha2

// The kinds as protobuf messages. The methods are those by which the serializer of API machinery knows a type that
// has this format.

// Reset empties the object.
func (x *ResourceClaim) Reset() { *x = ResourceClaim{} }

// Size is the length of the encoded object in bytes.
func (x *ResourceClaim) Size() int { return sizeOf(x) }

// Marshal encodes the object.
func (x *ResourceClaim) Marshal() ([]byte, error) { return marshal(x) }

// MarshalTo encodes the object at the start of the buffer, which must be long enough.
func (x *ResourceClaim) MarshalTo(buffer []byte) (int, error) {
	return marshalInto(x, buffer[:x.Size()])
}

// MarshalToSizedBuffer encodes the object at the end of the buffer.
func (x *ResourceClaim) MarshalToSizedBuffer(buffer []byte) (int, error) {
	return marshalInto(x, buffer)
}

func (x *ResourceClaim) encode(w *writer) {
	w.message(3, &x.Status)
	w.message(2, &x.Spec)
	w.foreign(1, &x.ObjectMeta)
}

// Unmarshal reads the message, adding to what is there.
func (x *ResourceClaim) Unmarshal(data []byte) error {
	return eachField(data, func(f wireField) error {
		switch f.number {
		case 1:
			return f.toMessage(&x.ObjectMeta)
		case 2:
			return f.toMessage(&x.Spec)
		case 3:
			return f.toMessage(&x.Status)
		}
		return nil
	})
}

// Reset empties the object.
func (x *ResourceClaimList) Reset() { *x = ResourceClaimList{} }

// Size is the length of the encoded object in bytes.
func (x *ResourceClaimList) Size() int { return sizeOf(x) }

// Marshal encodes the object.
func (x *ResourceClaimList) Marshal() ([]byte, error) { return marshal(x) }

// MarshalTo encodes the object at the start of the buffer, which must be long enough.
func (x *ResourceClaimList) MarshalTo(buffer []byte) (int, error) {
	return marshalInto(x, buffer[:x.Size()])
}

// MarshalToSizedBuffer encodes the object at the end of the buffer.
func (x *ResourceClaimList) MarshalToSizedBuffer(buffer []byte) (int, error) {
	return marshalInto(x, buffer)
}

func (x *ResourceClaimList) encode(w *writer) {
	messages(w, 2, x.Items)
	w.foreign(1, &x.ListMeta)
}

// Unmarshal reads the message, adding to what is there.
func (x *ResourceClaimList) Unmarshal(data []byte) error {
	return eachField(data, func(f wireField) error {
		switch f.number {
		case 1:
			return f.toMessage(&x.ListMeta)
		case 2:
			return toList(f, &x.Items)
		}
		return nil
	})
}

// Reset empties the object.
func (x *ResourceClaimTemplate) Reset() { *x = ResourceClaimTemplate{} }

// Size is the length of the encoded object in bytes.
func (x *ResourceClaimTemplate) Size() int { return sizeOf(x) }

// Marshal encodes the object.
func (x *ResourceClaimTemplate) Marshal() ([]byte, error) { return marshal(x) }

// MarshalTo encodes the object at the start of the buffer, which must be long enough.
func (x *ResourceClaimTemplate) MarshalTo(buffer []byte) (int, error) {
	return marshalInto(x, buffer[:x.Size()])
}

// MarshalToSizedBuffer encodes the object at the end of the buffer.
func (x *ResourceClaimTemplate) MarshalToSizedBuffer(buffer []byte) (int, error) {
	return marshalInto(x, buffer)
}

func (x *ResourceClaimTemplate) encode(w *writer) {
	w.message(2, &x.Spec)
	w.foreign(1, &x.ObjectMeta)
}

// Unmarshal reads the message, adding to what is there.
func (x *ResourceClaimTemplate) Unmarshal(data []byte) error {
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

// Reset empties the object.
func (x *ResourceClaimTemplateList) Reset() { *x = ResourceClaimTemplateList{} }

// Size is the length of the encoded object in bytes.
func (x *ResourceClaimTemplateList) Size() int { return sizeOf(x) }

// Marshal encodes the object.
func (x *ResourceClaimTemplateList) Marshal() ([]byte, error) { return marshal(x) }

// MarshalTo encodes the object at the start of the buffer, which must be long enough.
func (x *ResourceClaimTemplateList) MarshalTo(buffer []byte) (int, error) {
	return marshalInto(x, buffer[:x.Size()])
}

// MarshalToSizedBuffer encodes the object at the end of the buffer.
func (x *ResourceClaimTemplateList) MarshalToSizedBuffer(buffer []byte) (int, error) {
	return marshalInto(x, buffer)
}

func (x *ResourceClaimTemplateList) encode(w *writer) {
	messages(w, 2, x.Items)
	w.foreign(1, &x.ListMeta)
}

// Unmarshal reads the message, adding to what is there.
func (x *ResourceClaimTemplateList) Unmarshal(data []byte) error {
	return eachField(data, func(f wireField) error {
		switch f.number {
		case 1:
			return f.toMessage(&x.ListMeta)
		case 2:
			return toList(f, &x.Items)
		}
		return nil
	})
}

// Reset empties the object.
func (x *ResourceClass) Reset() { *x = ResourceClass{} }

// Size is the length of the encoded object in bytes.
func (x *ResourceClass) Size() int { return sizeOf(x) }

// Marshal encodes the object.
func (x *ResourceClass) Marshal() ([]byte, error) { return marshal(x) }

// MarshalTo encodes the object at the start of the buffer, which must be long enough.
func (x *ResourceClass) MarshalTo(buffer []byte) (int, error) {
	return marshalInto(x, buffer[:x.Size()])
}

// MarshalToSizedBuffer encodes the object at the end of the buffer.
func (x *ResourceClass) MarshalToSizedBuffer(buffer []byte) (int, error) {
	return marshalInto(x, buffer)
}

func (x *ResourceClass) encode(w *writer) {
	if x.StructuredParameters != nil {
		w.flag(5, *x.StructuredParameters)
	}
	if x.SuitableNodes != nil {
		w.foreign(4, x.SuitableNodes)
	}
	if x.ParametersRef != nil {
		w.message(3, x.ParametersRef)
	}
	w.text(2, x.DriverName)
	w.foreign(1, &x.ObjectMeta)
}

// Unmarshal reads the message, adding to what is there.
func (x *ResourceClass) Unmarshal(data []byte) error {
	return eachField(data, func(f wireField) error {
		switch f.number {
		case 1:
			return f.toMessage(&x.ObjectMeta)
		case 2:
			return toText(f, &x.DriverName)
		case 3:
			return toPointer(f, &x.ParametersRef)
		case 4:
			return toPointer(f, &x.SuitableNodes)
		case 5:
			x.StructuredParameters = new(bool)
			return f.toFlag(x.StructuredParameters)
		}
		return nil
	})
}

// Reset empties the object.
func (x *ResourceClassList) Reset() { *x = ResourceClassList{} }

// Size is the length of the encoded object in bytes.
func (x *ResourceClassList) Size() int { return sizeOf(x) }

// Marshal encodes the object.
func (x *ResourceClassList) Marshal() ([]byte, error) { return marshal(x) }

// MarshalTo encodes the object at the start of the buffer, which must be long enough.
func (x *ResourceClassList) MarshalTo(buffer []byte) (int, error) {
	return marshalInto(x, buffer[:x.Size()])
}

// MarshalToSizedBuffer encodes the object at the end of the buffer.
func (x *ResourceClassList) MarshalToSizedBuffer(buffer []byte) (int, error) {
	return marshalInto(x, buffer)
}

func (x *ResourceClassList) encode(w *writer) {
	messages(w, 2, x.Items)
	w.foreign(1, &x.ListMeta)
}

// Unmarshal reads the message, adding to what is there.
func (x *ResourceClassList) Unmarshal(data []byte) error {
	return eachField(data, func(f wireField) error {
		switch f.number {
		case 1:
			return f.toMessage(&x.ListMeta)
		case 2:
			return toList(f, &x.Items)
		}
		return nil
	})
}

// Reset empties the object.
func (x *PodSchedulingContext) Reset() { *x = PodSchedulingContext{} }

// Size is the length of the encoded object in bytes.
func (x *PodSchedulingContext) Size() int { return sizeOf(x) }

// Marshal encodes the object.
func (x *PodSchedulingContext) Marshal() ([]byte, error) { return marshal(x) }

// MarshalTo encodes the object at the start of the buffer, which must be long enough.
func (x *PodSchedulingContext) MarshalTo(buffer []byte) (int, error) {
	return marshalInto(x, buffer[:x.Size()])
}

// MarshalToSizedBuffer encodes the object at the end of the buffer.
func (x *PodSchedulingContext) MarshalToSizedBuffer(buffer []byte) (int, error) {
	return marshalInto(x, buffer)
}

func (x *PodSchedulingContext) encode(w *writer) {
	w.message(3, &x.Status)
	w.message(2, &x.Spec)
	w.foreign(1, &x.ObjectMeta)
}

// Unmarshal reads the message, adding to what is there.
func (x *PodSchedulingContext) Unmarshal(data []byte) error {
	return eachField(data, func(f wireField) error {
		switch f.number {
		case 1:
			return f.toMessage(&x.ObjectMeta)
		case 2:
			return f.toMessage(&x.Spec)
		case 3:
			return f.toMessage(&x.Status)
		}
		return nil
	})
}

// Reset empties the object.
func (x *PodSchedulingContextList) Reset() { *x = PodSchedulingContextList{} }

// Size is the length of the encoded object in bytes.
func (x *PodSchedulingContextList) Size() int { return sizeOf(x) }

// Marshal encodes the object.
func (x *PodSchedulingContextList) Marshal() ([]byte, error) { return marshal(x) }

// MarshalTo encodes the object at the start of the buffer, which must be long enough.
func (x *PodSchedulingContextList) MarshalTo(buffer []byte) (int, error) {
	return marshalInto(x, buffer[:x.Size()])
}

// MarshalToSizedBuffer encodes the object at the end of the buffer.
func (x *PodSchedulingContextList) MarshalToSizedBuffer(buffer []byte) (int, error) {
	return marshalInto(x, buffer)
}

func (x *PodSchedulingContextList) encode(w *writer) {
	messages(w, 2, x.Items)
	w.foreign(1, &x.ListMeta)
}

// Unmarshal reads the message, adding to what is there.
func (x *PodSchedulingContextList) Unmarshal(data []byte) error {
	return eachField(data, func(f wireField) error {
		switch f.number {
		case 1:
			return f.toMessage(&x.ListMeta)
		case 2:
			return toList(f, &x.Items)
		}
		return nil
	})
}
