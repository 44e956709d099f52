import { isJsonObject, type JsonObject, type JsonValue } from '#core/json'
import type { ElicitationMode } from '#core/runtime'
import { type ClientCapabilities, NEW_REVISION, type Revision } from './wire.ts'

export const NO_CAPABILITIES: ClientCapabilities = { form: false, url: false, sampling: false, roots: false }

/** T-19: `elicitation: {}` means forms only, `{ url: {} }` pages only; 2025-06-18 knows forms only (MCP-71). */
export function readCapabilities(declared: JsonValue | undefined, revision: Revision): ClientCapabilities {
  if (!isJsonObject(declared)) return NO_CAPABILITIES
  const { elicitation, sampling, roots } = declared
  const modes = isJsonObject(elicitation) ? elicitation : undefined
  const knowsModes = revision !== '2025-06-18'
  const namesUrl = knowsModes && isJsonObject(modes?.url)
  return {
    form: modes !== undefined && (isJsonObject(modes.form) || !namesUrl),
    url: namesUrl,
    sampling: isJsonObject(sampling),
    roots: isJsonObject(roots),
  }
}

/** What a client would have to declare (§1.5): the mode is named, as SDKs do. */
export function requiredFor(kind: ElicitationMode): JsonObject {
  return REQUIRED[kind]
}

const REQUIRED = {
  form: { elicitation: { form: {} } },
  url: { elicitation: { url: {} } },
  sampling: { sampling: {} },
  roots: { roots: {} },
} satisfies Record<ElicitationMode, JsonObject>

/** As kept in a session: flags, none of the client's own text. */
export function capabilitiesToJson({ form, url, sampling, roots }: ClientCapabilities): JsonObject {
  return { form, url, sampling, roots }
}

export function capabilitiesFromJson(kept: JsonValue | undefined): ClientCapabilities {
  const flags = isJsonObject(kept) ? kept : {}
  return {
    form: flags.form === true,
    url: flags.url === true,
    sampling: flags.sampling === true,
    roots: flags.roots === true,
  }
}

/** Sessions are of the older revisions only. */
export function isNewEra(revision: Revision): revision is typeof NEW_REVISION {
  return revision === NEW_REVISION
}
