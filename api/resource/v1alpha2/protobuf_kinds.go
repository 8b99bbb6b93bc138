package v1alpha2

// The methods by which the serializer of API machinery recognizes a kind that has a protobuf form. Size is the length of the
// encoded object; MarshalTo writes it to the start of a buffer and MarshalToSizedBuffer to the end; Unmarshal adds to what is
// there.

// Reset and the methods below it are the protobuf form of a ResourceClaim.
func (x *ResourceClaim) Reset()                                     { *x = ResourceClaim{} }
func (x *ResourceClaim) Size() int                                  { return sizeOf(x) }
func (x *ResourceClaim) Marshal() ([]byte, error)                   { return marshal(x) }
func (x *ResourceClaim) MarshalTo(b []byte) (int, error)            { return marshalTo(x, b[:x.Size()]) }
func (x *ResourceClaim) MarshalToSizedBuffer(b []byte) (int, error) { return marshalTo(x, b) }
func (x *ResourceClaim) Unmarshal(data []byte) error                { return unmarshal(x, data) }

// Reset and the methods below it are the protobuf form of a ResourceClaimList.
func (x *ResourceClaimList) Reset()                                     { *x = ResourceClaimList{} }
func (x *ResourceClaimList) Size() int                                  { return sizeOf(x) }
func (x *ResourceClaimList) Marshal() ([]byte, error)                   { return marshal(x) }
func (x *ResourceClaimList) MarshalTo(b []byte) (int, error)            { return marshalTo(x, b[:x.Size()]) }
func (x *ResourceClaimList) MarshalToSizedBuffer(b []byte) (int, error) { return marshalTo(x, b) }
func (x *ResourceClaimList) Unmarshal(data []byte) error                { return unmarshal(x, data) }

// Reset and the methods below it are the protobuf form of a ResourceClaimTemplate.
func (x *ResourceClaimTemplate) Reset()                                     { *x = ResourceClaimTemplate{} }
func (x *ResourceClaimTemplate) Size() int                                  { return sizeOf(x) }
func (x *ResourceClaimTemplate) Marshal() ([]byte, error)                   { return marshal(x) }
func (x *ResourceClaimTemplate) MarshalTo(b []byte) (int, error)            { return marshalTo(x, b[:x.Size()]) }
func (x *ResourceClaimTemplate) MarshalToSizedBuffer(b []byte) (int, error) { return marshalTo(x, b) }
func (x *ResourceClaimTemplate) Unmarshal(data []byte) error                { return unmarshal(x, data) }

// Reset and the methods below it are the protobuf form of a ResourceClaimTemplateList.
func (x *ResourceClaimTemplateList) Reset()                   { *x = ResourceClaimTemplateList{} }
func (x *ResourceClaimTemplateList) Size() int                { return sizeOf(x) }
func (x *ResourceClaimTemplateList) Marshal() ([]byte, error) { return marshal(x) }
func (x *ResourceClaimTemplateList) MarshalTo(b []byte) (int, error) {
	return marshalTo(x, b[:x.Size()])
}
func (x *ResourceClaimTemplateList) MarshalToSizedBuffer(b []byte) (int, error) {
	return marshalTo(x, b)
}
func (x *ResourceClaimTemplateList) Unmarshal(data []byte) error { return unmarshal(x, data) }

// Reset and the methods below it are the protobuf form of a ResourceClass.
func (x *ResourceClass) Reset()                                     { *x = ResourceClass{} }
func (x *ResourceClass) Size() int                                  { return sizeOf(x) }
func (x *ResourceClass) Marshal() ([]byte, error)                   { return marshal(x) }
func (x *ResourceClass) MarshalTo(b []byte) (int, error)            { return marshalTo(x, b[:x.Size()]) }
func (x *ResourceClass) MarshalToSizedBuffer(b []byte) (int, error) { return marshalTo(x, b) }
func (x *ResourceClass) Unmarshal(data []byte) error                { return unmarshal(x, data) }

// Reset and the methods below it are the protobuf form of a ResourceClassList.
func (x *ResourceClassList) Reset()                                     { *x = ResourceClassList{} }
func (x *ResourceClassList) Size() int                                  { return sizeOf(x) }
func (x *ResourceClassList) Marshal() ([]byte, error)                   { return marshal(x) }
func (x *ResourceClassList) MarshalTo(b []byte) (int, error)            { return marshalTo(x, b[:x.Size()]) }
func (x *ResourceClassList) MarshalToSizedBuffer(b []byte) (int, error) { return marshalTo(x, b) }
func (x *ResourceClassList) Unmarshal(data []byte) error                { return unmarshal(x, data) }

// Reset and the methods below it are the protobuf form of a PodSchedulingContext.
func (x *PodSchedulingContext) Reset()                                     { *x = PodSchedulingContext{} }
func (x *PodSchedulingContext) Size() int                                  { return sizeOf(x) }
func (x *PodSchedulingContext) Marshal() ([]byte, error)                   { return marshal(x) }
func (x *PodSchedulingContext) MarshalTo(b []byte) (int, error)            { return marshalTo(x, b[:x.Size()]) }
func (x *PodSchedulingContext) MarshalToSizedBuffer(b []byte) (int, error) { return marshalTo(x, b) }
func (x *PodSchedulingContext) Unmarshal(data []byte) error                { return unmarshal(x, data) }

// Reset and the methods below it are the protobuf form of a PodSchedulingContextList.
func (x *PodSchedulingContextList) Reset()                   { *x = PodSchedulingContextList{} }
func (x *PodSchedulingContextList) Size() int                { return sizeOf(x) }
func (x *PodSchedulingContextList) Marshal() ([]byte, error) { return marshal(x) }
func (x *PodSchedulingContextList) MarshalTo(b []byte) (int, error) {
	return marshalTo(x, b[:x.Size()])
}
func (x *PodSchedulingContextList) MarshalToSizedBuffer(b []byte) (int, error) {
	return marshalTo(x, b)
}
func (x *PodSchedulingContextList) Unmarshal(data []byte) error { return unmarshal(x, data) }
