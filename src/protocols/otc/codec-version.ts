import { fault } from '#core/errors'
import type { JsonValue } from '#core/json'
import {
  ARCADE_SCHEMA_ID,
  DEFAULT_SCHEMA_ID,
  isSupportedVersion,
  OTC_SCHEMA_ID,
  OXP_VERSION_HEADER,
  PROTOCOL_VERSION,
  type SchemaFamily,
  schemaFamily,
} from './wire.ts'

/** The version a request asks for, in the spelling the answer repeats (C-16). */
export interface DecodedVersion {
  readonly schemaId: string
  /** `undefined` when the request names no `$schema`: the newest version is assumed, or what the operator chose (OTC-15). */
  readonly family: SchemaFamily | undefined
}

/**
 * Reads both carriers of the version (C-17). Only 1.0 is served, so two carriers that disagree always
 * contain one that is refused.
 */
export function decodeVersion(
  schema: JsonValue | undefined,
  header: string | undefined,
  defaultSchema: string,
): DecodedVersion {
  if (header !== undefined && !isSupportedVersion(header)) {
    throw fault('version_unsupported', 'This server does not support the requested protocol version.', {
      developerMessage: `Header ${OXP_VERSION_HEADER} must be "${PROTOCOL_VERSION}" or absent.`,
    })
  }
  if (schema === undefined) return { schemaId: defaultSchema, family: undefined }
  if (typeof schema !== 'string' || !URL.canParse(schema)) {
    throw fault('request_invalid', '"$schema" must be a URI; leave it out to use the newest version.')
  }
  const family = schemaFamily(schema)
  if (family === undefined) {
    throw fault('version_unsupported', 'This server does not support the requested protocol version.', {
      developerMessage: `Supported "$schema" values: ${DEFAULT_SCHEMA_ID}, ${OTC_SCHEMA_ID}, ${ARCADE_SCHEMA_ID} and the same document under OpenToolCalling/Specification and OpenExecProtocol/Specification.`,
    })
  }
  return { schemaId: schema, family }
}
