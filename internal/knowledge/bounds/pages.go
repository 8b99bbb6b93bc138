package bounds

// Pages are those of one list.
type Pages struct {
	read, empty int
	token       string
}

// Next takes the objects of a page and the token of the next one into account. It returns a TooMuchError for a list that has no end.
func (p *Pages) Next(objects int, token string) error {
	p.read++
	if p.empty++; objects > 0 {
		p.empty = 0
	}
	switch {
	case token == "":
	case token == p.token, len(token) > TokenBytes, p.empty > EmptyPages, p.read > MostPages:
		return tooMuch("the pages of the list have no end: %d are read", p.read)
	}
	p.token = token
	return nil
}
