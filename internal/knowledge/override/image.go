package override

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
)

// image is a container image reference in its four parts; each but repository may be empty.
type image struct {
	// registry is "host" or "host:port".
	registry string
	// repository is the path within the registry.
	repository string
	// tag is what follows the colon.
	tag string
	// digest is "algorithm:hex". It pins the content, whatever the tag says.
	digest string
}

var (
	// validRegistry is a DNS name or IPv4 address, or a bracketed IPv6 address, with an optional port.
	validRegistry = regexp.MustCompile(`^(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*|\[[0-9A-Fa-f:]+\])(?::[0-9]+)?$`)
	// validRepository is lower-case words, separated within a path element by one period, one or two underscores, or dashes.
	validRepository = regexp.MustCompile(`^[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*)*$`)
	validTag        = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`)
	validDigest     = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9A-Fa-f]{32,}$`)
)

// parseImage takes a reference apart. The first path element is a registry if it could not be anything else: it has a
// period, a colon or an upper-case letter in it, or it is "localhost".
func parseImage(reference string) (image, error) {
	var img image
	rest := reference
	if at := strings.IndexByte(rest, '@'); at >= 0 {
		rest, img.digest = rest[:at], rest[at+1:]
		if !validDigest.MatchString(img.digest) {
			return image{}, fmt.Errorf("image %q has the invalid digest %q", reference, img.digest)
		}
	}
	if slash := strings.IndexByte(rest, '/'); slash >= 0 && looksLikeRegistry(rest[:slash]) {
		img.registry, rest = rest[:slash], rest[slash+1:]
		if !validRegistry.MatchString(img.registry) {
			return image{}, fmt.Errorf("image %q has the invalid registry %q", reference, img.registry)
		}
	}
	if colon := strings.LastIndexByte(rest, ':'); colon >= 0 {
		rest, img.tag = rest[:colon], rest[colon+1:]
		if !validTag.MatchString(img.tag) {
			return image{}, fmt.Errorf("image %q has the invalid tag %q", reference, img.tag)
		}
	}
	img.repository = rest
	if !validRepository.MatchString(img.repository) {
		return image{}, fmt.Errorf("image %q has the invalid repository %q", reference, img.repository)
	}
	return img, nil
}

func looksLikeRegistry(element string) bool {
	return element == "localhost" || strings.ContainsAny(element, ".:") || strings.ToLower(element) != element
}

// String puts the reference together again.
func (i image) String() string {
	s := i.repository
	if i.registry != "" {
		s = i.registry + "/" + s
	}
	if i.tag != "" {
		s += ":" + i.tag
	}
	if i.digest != "" {
		s += "@" + i.digest
	}
	return s
}

// change makes one edit to one component and checks that an image reference comes out.
func (i image) change(component policyv1alpha1.ImageComponent, operator policyv1alpha1.OverriderOperator, value string) (string, error) {
	compose := func(current string) string {
		switch operator {
		case policyv1alpha1.OverriderOpAdd:
			return current + value
		case policyv1alpha1.OverriderOpReplace:
			return value
		default:
			return ""
		}
	}
	switch component {
	case policyv1alpha1.Registry:
		i.registry = strings.TrimSuffix(compose(i.registry), "/")
	case policyv1alpha1.Repository:
		i.repository = strings.TrimPrefix(compose(i.repository), "/")
	case policyv1alpha1.Tag:
		i.setVersion(compose(i.version()))
	default:
		return "", fmt.Errorf("image component %q is none of Registry, Repository, Tag", component)
	}
	changed := i.String()
	if _, err := parseImage(changed); err != nil {
		return "", err
	}
	return changed, nil
}

// version is the tag, or the digest of an image that has no tag.
func (i image) version() string {
	if i.tag != "" {
		return i.tag
	}
	return i.digest
}

// setVersion takes a tag, a digest, or "tag@digest". A digest that stayed behind a new tag would make the tag
// meaningless, so both parts are always set.
func (i *image) setVersion(version string) {
	i.tag, i.digest = "", ""
	tag, digest, both := strings.Cut(version, "@")
	switch {
	case both:
		i.tag, i.digest = strings.TrimPrefix(tag, ":"), digest
	case validDigest.MatchString(version):
		i.digest = version
	default:
		i.tag = strings.TrimPrefix(version, ":")
	}
}

// overrideImage edits the image at the predicate's path, or those of all containers. It returns the path that failed.
func overrideImage(object map[string]any, o policyv1alpha1.ImageOverrider) (string, error) {
	if o.Predicate != nil {
		return o.Predicate.Path, overrideImageAt(object, o.Predicate.Path, o)
	}
	for _, list := range containerLists(object, "containers") {
		for _, container := range list.items {
			reference, ok := container.fields["image"].(string)
			if !ok || reference == "" {
				continue
			}
			path := container.path + "/image"
			if err := overrideImageAt(object, path, o); err != nil {
				return path, err
			}
		}
	}
	return "", nil
}

func overrideImageAt(object map[string]any, path string, o policyv1alpha1.ImageOverrider) error {
	value, err := lookup(object, path)
	if err != nil {
		return err
	}
	reference, ok := value.(string)
	if !ok {
		return errors.New("the value is no string, so no image")
	}
	parsed, err := parseImage(reference)
	if err != nil {
		return err
	}
	changed, err := parsed.change(o.Component, o.Operator, o.Value)
	if err != nil {
		return err
	}
	_, err = operation{path: path, operator: policyv1alpha1.OverriderOpReplace, value: changed}.run(object)
	return err
}
