package override

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/distribution/reference"
	godigest "github.com/opencontainers/go-digest"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
)

// image is a container image reference in its four parts; each but repository may be empty. The grammar of the parts is that of
// distribution/reference. Its parser is not used, since it completes names with the defaults of Docker Hub, or takes "library" of
// "library/nginx" for a registry.
type image struct {
	// registry is "host" or "host:port".
	registry string
	// repository is the path within the registry.
	repository string
	// tag is what follows the colon.
	tag string
	// digest is "algorithm:hex". It pins the content, whatever the tag is.
	digest string
}

// parseImage splits a reference. The first path element is a registry if it cannot be anything else: it has a period, a colon or
// an upper-case letter in it, or it is "localhost".
func parseImage(text string) (image, error) {
	var img image
	rest, digest, pinned := strings.Cut(text, "@")
	img.digest = digest
	if first, path, found := strings.Cut(rest, "/"); found && isRegistry(first) {
		img.registry, rest = first, path
	}
	colon := strings.LastIndexByte(rest, ':')
	tagged := colon >= 0
	if tagged {
		rest, img.tag = rest[:colon], rest[colon+1:]
	}
	img.repository = rest
	if err := img.validate(tagged, pinned); err != nil {
		return image{}, fmt.Errorf("image %q: %w", text, err)
	}
	return img, nil
}

func isRegistry(element string) bool {
	return element == "localhost" || strings.ContainsAny(element, ".:") || strings.ToLower(element) != element
}

func (i image) validate(tagged, pinned bool) error {
	registry := cmp.Or(i.registry, "localhost") // so that the first element of the repository is not taken for it
	name, err := reference.WithName(registry + "/" + i.repository)
	if err == nil && reference.Domain(name) != registry {
		err = errors.New("invalid registry")
	}
	if err == nil && tagged {
		_, err = reference.WithTag(name, i.tag)
	}
	if err == nil && pinned {
		_, err = reference.WithDigest(name, godigest.Digest(i.digest))
	}
	return err
}

// String joins the parts.
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

// change makes one edit to one component and checks that the result is an image reference.
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
		i.setVersion(compose(cmp.Or(i.tag, i.digest)))
	default:
		return "", fmt.Errorf("image component %q is none of Registry, Repository, Tag", component)
	}
	changed := i.String()
	_, err := parseImage(changed)
	return changed, err
}

// setVersion takes a tag, a digest, or "tag@digest". Both parts are set, since a digest makes a new tag meaningless.
func (i *image) setVersion(version string) {
	tag, digest, both := strings.Cut(strings.TrimPrefix(version, ":"), "@")
	if !both && strings.Contains(tag, ":") {
		tag, digest = "", tag
	}
	i.tag, i.digest = tag, digest
}

// imageSteps is what the expressions of an image reference take.
const imageSteps = 200

// overrideImage edits the image at the predicate's path, or those of all containers and init containers. It returns the path that failed.
func (b *budget) overrideImage(object map[string]any, o policyv1alpha1.ImageOverrider) (string, error) {
	if o.Predicate != nil {
		return o.Predicate.Path, b.overrideImageAt(object, o.Predicate.Path, o)
	}
	all := containers(object)
	if err := b.step(len(all)); err != nil {
		return "", err
	}
	for _, container := range all {
		text, ok := container.fields["image"].(string)
		if !ok || text == "" {
			continue
		}
		path := container.path + "/image"
		if err := b.overrideImageAt(object, path, o); err != nil {
			return path, err
		}
	}
	return "", nil
}

func (b *budget) overrideImageAt(object map[string]any, path string, o policyv1alpha1.ImageOverrider) error {
	text, err := lookupText(object, path, "image")
	if err != nil {
		return err
	}
	if err := cmp.Or(b.step(imageSteps+len(text)), b.write(len(o.Value))); err != nil {
		return err
	}
	parsed, err := parseImage(text)
	if err != nil {
		return err
	}
	changed, err := parsed.change(o.Component, o.Operator, o.Value)
	if err != nil {
		return err
	}
	b.changes = b.changes || changed != text
	_, err = operation{path: path, operator: policyv1alpha1.OverriderOpReplace, value: changed}.run(b, object)
	return err
}
