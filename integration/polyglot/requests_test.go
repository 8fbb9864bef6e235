package polyglot

// requestVector is a request to the gateway, and its answer. Each language sends all of them to a
// live mesh: counters at 0, named demo, of the extent host=2,gpu=2.
type requestVector struct {
	Name     string      `json:"name"`
	Mesh     string      `json:"meshname"`
	Actor    string      `json:"actor"`
	Endpoint string      `json:"endpoint"`
	Headers  [][2]string `json:"headers"`
	Body     string      `json:"body"` // hex
	Want     replyVector `json:"reply"`
}

// replyVector is the only reply to a request, or its last one.
type replyVector struct {
	Format   string            `json:"format"`             // its Content-Type
	Value    any               `json:"value,omitempty"`    // what its body decodes to; not of an error
	Headers  map[string]string `json:"headers,omitempty"`  // those it has among others
	Code     int               `json:"code,omitempty"`     // of an error: Nats-Service-Error-Code
	Mentions []string          `json:"mentions,omitempty"` // of an error: what Nats-Service-Error has in it
}

// trace is the traceparent of the vectors.
const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

const (
	asJSON = "application/json"
	asCBOR = "application/cbor"
)

// covered are the headers of a reply with a number of answered ranks.
func covered(n string) map[string]string {
	return map[string]string{"Castnet-Asked": n, "Castnet-Answered": n, "Castnet-Failed": "0",
		"Castnet-Missing": "0"}
}

func requestVectors() []requestVector {
	get := func(name string, want replyVector, headers ...[2]string) requestVector {
		if want.Format == "" {
			want.Format = asJSON
		}
		if headers == nil {
			headers = [][2]string{}
		}
		return requestVector{Name: name, Mesh: "demo", Actor: "counter", Endpoint: "get",
			Headers: headers, Want: want}
	}
	at := func(v requestVector, mesh, actor, endpoint, body string) requestVector {
		v.Mesh, v.Actor, v.Endpoint, v.Body = mesh, actor, endpoint, body
		return v
	}
	bad := func(code int, mentions ...string) replyVector { return replyVector{Code: code, Mentions: mentions} }
	inCBOR := [2]string{"Content-Type", asCBOR}
	return []requestVector{
		get("gather is the default", replyVector{Value: []int{0, 0, 0, 0}, Headers: covered("4")}),
		get("a reducer folds", replyVector{Value: 0, Headers: covered("4")}, [2]string{"Castnet-Reduce", "sum"}),
		get("reduce may be said, too", replyVector{Value: 4, Headers: covered("4")},
			[2]string{"Castnet-Reduce", "count"}, [2]string{"Castnet-Collect", "reduce"}),
		get("a region is asked alone", replyVector{Value: []int{0, 0}, Headers: covered("2")},
			[2]string{"Castnet-Region", "host=1"}),
		get("a star is everything", replyVector{Value: []int{0, 0, 0, 0}, Headers: covered("4")},
			[2]string{"Castnet-Region", "*"}),
		get("an empty region is everything", replyVector{Value: []int{0, 0, 0, 0}, Headers: covered("4")},
			[2]string{"Castnet-Region", ""}),
		get("a deadline may be said", replyVector{Value: []int{0, 0, 0, 0}, Headers: covered("4")},
			[2]string{"Castnet-TTL", "10s"}),
		get("who asks in CBOR is answered in CBOR",
			replyVector{Format: asCBOR, Value: []int{0, 0, 0, 0}, Headers: covered("4")}, inCBOR),

		get("a trace is in the reply, too", replyVector{Value: []int{0, 0, 0, 0},
			Headers: map[string]string{"traceparent": trace}}, [2]string{"traceparent", trace}),
		get("a malformed trace counts as none", replyVector{Value: []int{0, 0, 0, 0}, Headers: covered("4")},
			[2]string{"traceparent", "00-0"}),
		get("an error has the trace, too", replyVector{Code: 400, Headers: map[string]string{"traceparent": trace}},
			[2]string{"traceparent", trace}, [2]string{"Castnet-TTL", "soon"}),

		at(get("an unknown mesh", bad(404, "nosuch", "demo")), "nosuch", "counter", "get", ""),
		at(get("an unknown actor", bad(404, "nobody", "counter")), "demo", "nobody", "get", ""),
		at(get("an unknown endpoint", bad(404, "subtract", "add", "get", "reset")), "demo", "counter",
			"subtract", ""),
		at(get("an unknown mesh, in CBOR", replyVector{Format: asCBOR, Code: 404, Mentions: []string{"nosuch"}},
			inCBOR), "nosuch", "counter", "get", ""),
		get("a region outside the mesh", bad(400, "host=9"), [2]string{"Castnet-Region", "host=9"}),
		get("a dimension that is not there", bad(400, "rack", "host"), [2]string{"Castnet-Region", "rack=0"}),
		get("a region that is no text of one", bad(400, "gpu="), [2]string{"Castnet-Region", "gpu="}),
		get("a reducer and another way to collect", bad(400, "Castnet-Reduce", "Castnet-Collect"),
			[2]string{"Castnet-Reduce", "sum"}, [2]string{"Castnet-Collect", "stream"}),
		get("reduce without a reducer", bad(400, "Castnet-Reduce"), [2]string{"Castnet-Collect", "reduce"}),
		get("a way to collect that is none", bad(400, "Castnet-Collect", "everything", "gather", "stream"),
			[2]string{"Castnet-Collect", "everything"}),
		get("an unknown reducer", bad(400, "average-ish"), [2]string{"Castnet-Reduce", "average-ish"}),
		get("a deadline that is no duration", bad(400, "Castnet-TTL", "soon"), [2]string{"Castnet-TTL", "soon"}),
		get("a deadline without a unit", bad(400, "Castnet-TTL"), [2]string{"Castnet-TTL", "5"}),
		get("a deadline in the past", bad(400, "Castnet-TTL"), [2]string{"Castnet-TTL", "-1s"}),
		get("a deadline too far", bad(400, "Castnet-TTL", "10m"), [2]string{"Castnet-TTL", "11m"}),
		get("a header of ours that is none", bad(400, "Castnet-Colour", "Castnet-Region"),
			[2]string{"Castnet-Colour", "red"}),
		get("a header twice", bad(400, "Castnet-Region"), [2]string{"Castnet-Region", "host=0"},
			[2]string{"Castnet-Region", "host=1"}),
		get("a format that is none", bad(400, "text/plain", "application/json"),
			[2]string{"Content-Type", "text/plain"}),
		at(get("a body of another type", bad(400, "int64")), "demo", "counter", "add", "2266697665220a"),
		at(get("a body that ends too early", bad(400)), "demo", "counter", "add", "7b2278"),
		at(get("CBOR that ends too early", replyVector{Format: asCBOR, Code: 400}, inCBOR), "demo",
			"counter", "add", "18"),
	}
}
