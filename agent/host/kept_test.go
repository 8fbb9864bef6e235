package host

import keys "github.com/castnet-io/castnet/config"

// maxEnded is how many ended meshes a host remembers that nobody has configured.
var maxEnded = keys.HostEndedHistory.Get(nil)
