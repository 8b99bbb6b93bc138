package endpointslices

import (
	"errors"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
)

const (
	// MaxSlices is how many slices of one Service of a member are recorded.
	MaxSlices     = 100
	maxZoneLength = 63
)

// Check returns why a slice of a member is not recorded and carried to others; nil if it is. An API server checks the same of the slices
// that it stores; but what a member or its agent sends need not come from one.
func Check(slice *discoveryv1.EndpointSlice) error {
	switch n := len(slice.Endpoints); {
	case n > bounds.MaxEndpoints:
		return fmt.Errorf("it has %d endpoints, and may have %d", n, bounds.MaxEndpoints)
	case len(slice.Ports) > bounds.MaxPorts:
		return fmt.Errorf("it has %d ports, and may have %d", len(slice.Ports), bounds.MaxPorts)
	case len(validation.IsDNS1123Subdomain(slice.Name)) > 0:
		return errors.New("its name is not one that a slice can have")
	}
	for i := range slice.Ports {
		if err := checkPort(&slice.Ports[i]); err != nil {
			return fmt.Errorf("ports[%d]: %w", i, err)
		}
	}
	for i := range slice.Endpoints {
		if err := checkEndpoint(slice.AddressType, &slice.Endpoints[i]); err != nil {
			return fmt.Errorf("endpoints[%d]: %w", i, err)
		}
	}
	return nil
}

func checkPort(port *discoveryv1.EndpointPort) error {
	switch {
	case port.Name != nil && *port.Name != "" && len(validation.IsDNS1123Label(*port.Name)) > 0:
		return errors.New("the name is no DNS label")
	case port.Port != nil && len(validation.IsValidPortNum(int(*port.Port))) > 0:
		return fmt.Errorf("port %d is none", *port.Port)
	case port.AppProtocol != nil && len(validation.IsQualifiedName(*port.AppProtocol)) > 0:
		return errors.New("the application protocol is no qualified name")
	}
	if port.Protocol == nil {
		return nil
	}
	switch *port.Protocol {
	case corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP:
		return nil
	}
	return errors.New("the protocol is not TCP, UDP or SCTP")
}

func checkEndpoint(kind discoveryv1.AddressType, e *discoveryv1.Endpoint) error {
	switch n := len(e.Addresses); {
	case n == 0 || n > bounds.MaxAddresses:
		return fmt.Errorf("it has %d addresses, and may have 1 to %d", n, bounds.MaxAddresses)
	case e.Hostname != nil && len(validation.IsDNS1123Label(*e.Hostname)) > 0:
		return errors.New("the host name is no DNS label")
	case e.Zone != nil && (len(*e.Zone) > maxZoneLength || len(validation.IsValidLabelValue(*e.Zone)) > 0):
		return errors.New("the zone is no value of a label")
	case e.NodeName != nil && len(validation.IsDNS1123Subdomain(*e.NodeName)) > 0:
		return errors.New("the node is no name of one")
	}
	for _, address := range e.Addresses {
		if err := checkAddress(kind, address); err != nil {
			return err
		}
	}
	return nil
}

// checkAddress refuses addresses that mean the machine or the network of whoever uses them: each member would reach its own.
func checkAddress(kind discoveryv1.AddressType, text string) error {
	if kind == discoveryv1.AddressTypeFQDN {
		if len(validation.IsDNS1123Subdomain(text)) > 0 {
			return errors.New("an address is no DNS name")
		}
		return nil
	}
	address, err := netip.ParseAddr(text)
	want := map[discoveryv1.AddressType]bool{discoveryv1.AddressTypeIPv4: address.Is4(), discoveryv1.AddressTypeIPv6: address.Is6() && !address.Is4In6()}
	switch {
	case err != nil || address.Zone() != "" || !want[kind]:
		return errors.New("an address is not of the type of the slice")
	case address.IsUnspecified(), address.IsLoopback(), address.IsLinkLocalUnicast(), address.IsMulticast(), address == broadcast:
		return fmt.Errorf("address %s is no address of a pod: it is unspecified, loopback, link-local, multicast or broadcast", address)
	}
	return nil
}

var broadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})
