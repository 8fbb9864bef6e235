// spec/vectors.json.

import { readFileSync } from "node:fs";

export const vectors = JSON.parse(readFileSync(new URL("../../../spec/vectors.json", import.meta.url), "utf8"));
