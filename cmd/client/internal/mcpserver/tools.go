package mcpserver

import "slices"

// tool is one command as a client sees it.
type tool struct {
	name, title string
	command     []string
	flags       []string // of each call
	about       string
	example     string // arguments, as JSON
	acts        bool
	idempotent  bool
	lines       bool // the command prints a document on each line
	newest      bool // the last items of its lists matter most
	parameters  []parameter
}

// region is the parameter with the ranks of a tool.
func region(about string, required bool) parameter {
	return parameter{name: "target", form: formText, place: asArgument, required: required,
		about:    about + " MESH or MESH[region]",
		examples: []any{"demo", "demo[host=0]", "demo[host=0:2,gpu=*]"}}
}

// wholeMesh is the parameter with the mesh of a tool.
func wholeMesh() parameter {
	return parameter{name: "mesh", form: formText, place: asArgument, required: true,
		about: "name or ID of a mesh or world", examples: []any{"demo"}}
}

func reason() parameter {
	return parameter{name: "reason", form: formText, about: "reason to record", examples: []any{"new data"}}
}

// timeout bounds a tool that acts, in seconds.
func timeout() parameter {
	return parameter{name: "timeout", form: formWhole, unit: "s", least: 1, most: maxTimeout,
		preset: baseTimeout,
		about:  "seconds until the tool gives up; work that has begun goes on"}
}

func since() parameter {
	return parameter{name: "since", form: formText,
		about:    "only since then: a duration before now, or a time in RFC 3339",
		examples: []any{"10m", "2026-11-26T09:30:00Z"}}
}

func hostNames(place place, required bool, about string) parameter {
	return parameter{name: "hosts", form: formNames, place: place, required: required, about: about,
		examples: []any{[]string{"n07", "n08"}}}
}

func everything(about string) parameter {
	return parameter{name: "all", form: formFlag, about: about}
}

// tools are all tools: those that read first.
func tools() []tool { return slices.Concat(readingTools(), actingTools()) }

func readingTools() []tool {
	return []tool{
		{
			name: "hosts", title: "List hosts", command: []string{"hosts"}, example: `{}`,
			about: "Lists the hosts on the bus with their state, number of procs, labels, version and " +
				"mode (open, cordoned, drained). Silent and dead hosts are listed, too.",
			parameters: []parameter{{name: "label", form: formText,
				about:    "only hosts with these labels, with commas between",
				examples: []any{"zone=a", "zone=a,gpu=h100"}}},
		},
		{
			name: "meshes", title: "List meshes and worlds", command: []string{"meshes"}, example: `{}`,
			about: "Lists live meshes and worlds with their shape, hosts, owner and phase. Begin here.",
			parameters: []parameter{
				everything("also meshes that have ended and that hosts remember"),
			},
		},
		{
			name: "procs", title: "List procs (ranks)", command: []string{"procs"},
			example: `{"target":"demo[host=0]"}`,
			about: "Lists the procs (OS processes, one for each rank) of a mesh, or of all: host, PID, " +
				"status, CPU time, memory, and of an ended one its exit code or signal and the reason.",
			parameters: []parameter{
				region("the ranks (default: all live meshes):", false),
				everything("also ended meshes; without a target"),
			},
		},
		{
			name: "actors", title: "List actors", command: []string{"actors"}, example: `{"target":"demo"}`,
			about: "Lists the actors in each rank of a mesh: type, status, queued and handled " +
				"messages, running handler, endpoints. For names alone, types is shorter.",
			parameters: []parameter{region("the ranks:", true), everything("also castnet's own actors")},
		},
		{
			name: "types", title: "List actor types and endpoints", command: []string{"types"},
			example: `{"target":"demo"}`,
			about: "Lists the actor types of a mesh once each, with the labels of their actors and the " +
				"endpoints with the types of message and answer, such as add(int64) int64. call and cast " +
				"take these names.",
			parameters: []parameter{region("the ranks:", true)},
		},
		{
			name: "mesh_show", title: "Show one mesh", command: []string{"mesh", "show"},
			example: `{"mesh":"demo"}`,
			about: "Shows one mesh: owner, restart policy, hosts, ranks by status, failures with " +
				"causes and the last lines of stderr, restarted ranks, actors, lease.",
			parameters: []parameter{wholeMesh()},
		},
		{
			name: "explain", title: "Explain why a mesh is not running", command: []string{"explain"},
			example: `{"mesh":"demo"}`,
			about: "Says in words whether a mesh is healthy; if not, the causes with their ranks, the " +
				"root cause first, then the next automatic steps, and suggestions.",
			parameters: []parameter{wholeMesh()},
		},
		{
			name: "failures", title: "List past failures", command: []string{"events"},
			example: `{"mesh":"demo","since":"1h"}`,
			newest:  true,
			about: "Lists the failures of ranks that owners of meshes and the system controller " +
				"remember, the earliest first, also of meshes whose program is gone: reason, cause, exit " +
				"code or signal, last lines of stderr. For actors see explain.",
			parameters: []parameter{
				{name: "mesh", form: formText,
					about: "only of the mesh with this name or ID", examples: []any{"demo"}},
				since(),
			},
		},
		{
			name: "events", title: "Watch new events", command: []string{"events"},
			flags:   []string{"--follow", "--output=ndjson"},
			example: `{"seconds":10,"mesh":"demo"}`, lines: true, newest: true,
			about: "Watches events for some seconds: state changes of hosts, meshes, ranks, procs and " +
				"actors, and with kind audit the orders. Past failures come first; since leaves out " +
				"older ones.",
			parameters: []parameter{
				{name: "seconds", form: formWhole, place: asWindow, least: 1, most: 60, preset: 5,
					about: "how long to watch"},
				{name: "kind", form: formText,
					about: "only host, mesh, rank, proc, actor or audit", examples: []any{"proc"}},
				{name: "mesh", form: formText,
					about: "only of the mesh with this name or ID", examples: []any{"demo"}},
				since(),
			},
		},
		{
			name: "logs", title: "Read the output of procs", command: []string{"logs"},
			example: `{"target":"demo[host=0]","grep":"error|panic","since":"10m"}`,
			about: "Reads the last lines of stdout and stderr of each rank, in the order of ranks; " +
				"also of ended ranks. With since or grep, hosts search the last 8 MiB of each output.",
			parameters: []parameter{
				region("the ranks:", true),
				{name: "tail", form: formWhole, least: 1, most: 1000, preset: 20,
					about: "last lines of each stream of a rank"},
				since(),
				{name: "grep", form: formText, about: "only lines that match this regular expression (RE2)",
					examples: []any{"error|panic"}},
			},
		},
		{
			name: "metrics", title: "Read metrics of hosts", command: []string{"metrics"},
			example: `{"hosts":["n07"]}`,
			about: "Reads counters of hosts, added up by the name of the mesh: ranks by phase, " +
				"restarts, CPU, memory, messages handled and failed by actor type and endpoint, waits " +
				"and run times, link repairs.",
			parameters: []parameter{hostNames(asArgument, false, "labels or IDs of hosts (default: all)")},
		},
		{
			name: "stack", title: "Show stacks of goroutines", command: []string{"stack"},
			example: `{"target":"demo[host=0]"}`,
			about: "Shows what the goroutines of ranks do, equal stacks once with their ranks. It " +
				"works while a handler hangs. At most 1,024 ranks.",
			parameters: []parameter{
				region("the ranks:", true), everything("also stacks of castnet and Go alone"),
			},
		},
		{
			name: "worlds", title: "List worlds", command: []string{"worlds"},
			example: `{"names":["train"]}`,
			about: "Lists worlds, which are declared meshes that outlive their makers: status, reason, " +
				"hosts by rank, procs.",
			parameters: []parameter{{name: "names", form: formNames, place: asArgument,
				about:    "only these (default: all)",
				examples: []any{[]string{"train"}}}},
		},
		{
			name: "doctor", title: "Check bus, permissions and hosts", command: []string{"doctor"},
			example: `{}`,
			about: "Checks the connection, the role and permissions of this client, JetStream, the " +
				"system controller, hosts, versions, clocks and log disks. Each check has a result and, " +
				"if needed, a suggestion.",
		},
		{
			name: "top", title: "Sample CPU, memory and queues", command: []string{"top"},
			flags:   []string{"--interval=1s"},
			example: `{"target":"demo","sort":"queued"}`,
			about: "Samples hosts and procs for one second: CPU, memory, messages per second, queued " +
				"messages, latency, and the longest running handler.",
			parameters: []parameter{
				region("the ranks (default: all):", false),
				{name: "sort", form: formText,
					about:    "largest first: rate (default), cpu, mem, queued or handled; or name",
					examples: []any{"queued"}},
			},
		},
	}
}

// request are the parameters of call and cast.
func request(target parameter) []parameter {
	return []parameter{
		target,
		{name: "actor", form: formText, place: asArgument, required: true,
			about:    "label or name of the actor; types lists them",
			examples: []any{"counter"}},
		{name: "endpoint", form: formText, place: asArgument, required: true,
			about:    "name of the endpoint; types lists them",
			examples: []any{"add"}},
		{name: "message", form: formJSON, place: asArgument,
			about: "the message, as the JSON value that the endpoint takes; none for an endpoint " +
				"without a message",
			examples: []any{5, "text", map[string]int{"n": 1}}},
		timeout(),
	}
}

func actingTools() []tool {
	all := []tool{
		{
			name: "call", title: "Call one actor", command: []string{"call"},
			example: `{"target":"demo[host=0,gpu=3]","actor":"counter","endpoint":"add","message":5}`,
			about: "Sends a message to the actor of exactly one rank and returns its answer. The " +
				"handler may change its state. The region needs an index for each dimension.",
			parameters: request(region("one rank:", true)),
		},
		{
			name: "cast", title: "Cast to many actors", command: []string{"cast"},
			example: `{"target":"demo","actor":"counter","endpoint":"get","reduce":"sum"}`,
			about: "Sends one message to the actors of all ranks of a region and collects the answers, " +
				"with a coverage of answered, failed and missing ranks. Handlers may change their state. " +
				"With dry_run it only lists the ranks.",
			parameters: append(request(region("the ranks; a union is demo[host=0 | gpu=3]:", true)),
				parameter{name: "reduce", form: formText,
					about: "fold the answers into one value: sum, min, max, all, any, count, concat, " +
						"collect, merge(sum), top(3), bottom(3), count-by, histogram(10,100)",
					examples: []any{"sum"}},
				parameter{name: "collect", form: formText,
					about: "gather, reduce, send (no answers) or choose (any one rank); default: each " +
						"answer",
					examples: []any{"gather"}},
				parameter{name: "one_per", form: formText,
					about:    "at most one rank of each index of this dimension at a time",
					examples: []any{"host"}},
				parameter{name: "batch_size", form: formWhole, least: 1,
					about: "at most so many ranks at a time"},
				parameter{name: "canary", form: formFlag,
					about: "one rank first, and the others only after its answer"},
				parameter{name: "max_failures", form: formWhole, least: 1,
					about: "stop after so many ranks without an answer"},
				parameter{name: "sample", form: formText,
					about: "a part of the ranks", examples: []any{"10%"}},
				parameter{name: "dry_run", form: formFlag, about: "list the ranks, and send nothing"},
			),
		},
		{
			name: "spawn", title: "Start a mesh", command: []string{"spawn"}, flags: []string{"--detach"},
			example: `{"name":"trial","per_host":"gpu=4","actor":"counter"}`,
			about: "Starts procs on hosts, with an actor in each. The mesh is detached: it runs until " +
				"stop ends it. Without command the procs run the built-in actors counter, echo and " +
				"plain.",
			parameters: []parameter{
				{name: "name", form: formText, place: asArgument, required: true,
					about: "name of the new mesh", examples: []any{"trial"}},
				{name: "per_host", form: formText,
					about: "procs on each host (default 1)", examples: []any{"4", "gpu=4", "node=2,gpu=4"}},
				hostNames(asFlag, false, "labels or IDs of the hosts (default: all that take procs)"),
				{name: "label", form: formText,
					about: "only hosts with these labels", examples: []any{"zone=a"}},
				{name: "actor", form: formText,
					about:    "actor type in each proc (default counter); empty for none",
					examples: []any{"counter"}},
				{name: "params", form: formJSON,
					about: "parameters of each actor, as JSON", examples: []any{10}},
				{name: "command", form: formText,
					about:    "absolute path of the program on each host (default: built-in actors)",
					examples: []any{"/opt/words/bin/words"}},
				{name: "arg", form: formNames, repeated: true, about: "arguments of the program",
					examples: []any{[]string{"--verbose"}}},
				timeout(),
			},
		},
		{
			name: "stop", title: "Stop a mesh", command: []string{"stop"},
			example: `{"mesh":"trial","reason":"done"}`,
			about: "Stops a mesh or world for good, and waits until every rank has ended: actors " +
				"handle their queued messages, procs get SIGTERM, and SIGKILL after 10 s.",
			parameters: []parameter{wholeMesh(), reason(), timeout()},
		},
		{
			name: "restart", title: "Restart procs one after another", command: []string{"mesh", "restart"},
			example: `{"target":"demo[host=0]","reason":"new data"}`,
			about: "Restarts procs of a mesh in place, rank by rank: SIGTERM, SIGKILL after the grace, " +
				"then the next generation. It stops at the first that does not come back. If actors " +
				"would be lost, nothing restarts without force.",
			parameters: []parameter{
				region("the ranks:", true),
				{name: "max_unavailable", form: formWhole, least: 1, most: 256,
					about: "procs that restart at a time (default 1)"},
				{name: "force", form: formFlag, about: "restart even if actors are lost"},
				reason(), timeout(),
			},
		},
		{
			name: "grow", title: "Add hosts to a mesh", command: []string{"grow"},
			example: `{"mesh":"demo","n":2}`,
			about: "Starts procs of a mesh, and their actors, on n more hosts or on those of hosts. No " +
				"rank changes its number. Detached meshes and worlds do not grow.",
			parameters: []parameter{
				wholeMesh(), resizeBy(), hostNames(asFlag, false, "the hosts, in place of n"), timeout(),
			},
		},
		{
			name: "shrink", title: "Remove the last hosts of a mesh", command: []string{"shrink"},
			example: `{"mesh":"demo","n":1}`,
			about: "Stops the procs of a mesh on its last n hosts, after their actors. Detached meshes " +
				"and worlds do not shrink.",
			parameters: []parameter{
				wholeMesh(), resizeBy(),
				hostNames(asFlag, false, "the last hosts, in place of n, as a check"), timeout(),
			},
		},
		{
			name: "cordon", title: "Close hosts for new procs", command: []string{"hosts", "cordon"},
			idempotent: true,
			example:    `{"hosts":["n07"],"reason":"new disks"}`,
			about:      "Closes hosts for new procs until uncordon. Running procs go on.",
			parameters: []parameter{hostNames(asArgument, true, "labels or IDs of hosts"), reason()},
		},
		{
			name: "uncordon", title: "Open hosts for new procs", command: []string{"hosts", "uncordon"},
			idempotent: true,
			example:    `{"hosts":["n07"]}`,
			about:      "Opens cordoned hosts for new procs.",
			parameters: []parameter{hostNames(asArgument, true, "labels or IDs of hosts"), reason()},
		},
		{
			name: "drain", title: "Empty hosts", command: []string{"hosts", "drain"}, idempotent: true,
			example: `{"hosts":["n07"],"reason":"new disks"}`,
			about: "Empties hosts: procs of meshes with a spare host move there, all others are " +
				"stopped for good. Cordon the hosts first, or they take procs again. If actors or worlds " +
				"would be lost, nothing is drained without force.",
			parameters: []parameter{
				hostNames(asArgument, true, "labels or IDs of hosts"),
				{name: "max_concurrent", form: formWhole, least: 1, most: 256,
					about: "procs that stop or move at a time"},
				{name: "force", form: formFlag,
					about: "drain even if worlds end, or actors or ranks are lost"},
				reason(), timeout(),
			},
		},
	}
	for i := range all {
		all[i].acts = true
	}
	return all
}

// resizeBy is the number of hosts that a mesh gets or loses.
func resizeBy() parameter {
	return parameter{name: "n", form: formWhole, place: asArgument, least: 1,
		about: "number of hosts", examples: []any{1}}
}
