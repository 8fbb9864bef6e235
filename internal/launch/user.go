package launch

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"
	"syscall"
)

// User is the user of children.
type User struct {
	name, home string
	uid, gid   uint32
	groups     []uint32
}

// FindUser finds a user of this system by "USER" or "USER:GROUP", each a name or a number. GROUP
// replaces the user's primary group. Only root can start processes of another user.
func FindUser(spec string) (*User, error) {
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("cannot start processes of user %q: only root can", spec)
	}
	name, group, withGroup := strings.Cut(spec, ":")
	u, err := lookupUser(name)
	if err != nil {
		return nil, fmt.Errorf("cannot find user %q: %w", name, err)
	}
	groups, err := u.GroupIds()
	if err != nil {
		return nil, fmt.Errorf("cannot find the groups of user %q: %w", name, err)
	}
	if withGroup {
		u.Gid, err = lookupGroup(group)
		if err != nil {
			return nil, fmt.Errorf("cannot find group %q: %w", group, err)
		}
	}
	var ids []uint32
	for _, id := range append([]string{u.Uid, u.Gid}, groups...) {
		n, err := strconv.ParseUint(id, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("cannot use the IDs of user %q: %w", name, err)
		}
		ids = append(ids, uint32(n))
	}
	if ids[0] == 0 {
		return nil, fmt.Errorf("cannot use user %q: want another user than root", name)
	}
	return &User{name: u.Username, home: u.HomeDir, uid: ids[0], gid: ids[1], groups: ids[2:]}, nil
}

func lookupUser(name string) (*user.User, error) {
	u, err := user.Lookup(name)
	if _, unknown := errors.AsType[user.UnknownUserError](err); unknown {
		if byID, idErr := user.LookupId(name); idErr == nil {
			return byID, nil
		}
	}
	return u, err
}

func lookupGroup(name string) (gid string, err error) {
	g, err := user.LookupGroup(name)
	if _, unknown := errors.AsType[user.UnknownGroupError](err); unknown {
		if byID, idErr := user.LookupGroupId(name); idErr == nil {
			return byID.Gid, nil
		}
	}
	if err != nil {
		return "", err
	}
	return g.Gid, nil
}

// Env returns the variables that name the user and its home; none for nil.
func (u *User) Env() []string {
	if u == nil {
		return nil
	}
	return []string{"HOME=" + u.home, "USER=" + u.name}
}

// Own gives a file to the user; nil changes nothing.
func (u *User) Own(path string) error {
	if u == nil {
		return nil
	}
	return os.Chown(path, int(u.uid), int(u.gid))
}

// credential returns the IDs for a fork; nil changes none.
func (u *User) credential() *syscall.Credential {
	if u == nil {
		return nil
	}
	return &syscall.Credential{Uid: u.uid, Gid: u.gid, Groups: u.groups}
}
