package host

import keys "github.com/castnet-io/castnet/config"

// maxEnded is the default number of remembered ended meshes on a host.
var maxEnded = keys.HostEndedHistory.Get(nil)
