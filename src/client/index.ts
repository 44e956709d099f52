import * as opentool from './opentool.ts'

export type { JsonArray, JsonObject, JsonValue } from '#core/json'
export type { ToolFacts } from '#core/tools/facts'
export type {
  ClientDialect,
  RemoteAuthorization,
  RemoteRequirements,
  RemoteTool,
} from '#protocols/otc/codec-client'
export type { FailureClass, RemoteChallenge, RemoteMissing } from '#protocols/otc/codec-client-reply'
export { CallFailure } from './call-failure.ts'
export type { CallOptions } from './call-run.ts'
export type { ClientOptions, ClientProtocol, RequirementResolvers } from './client-options.ts'
export type { ColletClient, Health, TriedCall } from './collet-client.ts'
export { connect } from './connect.ts'
export type { JwtOption } from './credentials.ts'
export type { Fetch } from './http-exchange.ts'
export type { JwtSigning } from './mint-jwt.ts'
export type { CallResult } from './read-outcome.ts'
export type { Calls, RecordedCall } from './recorded-calls.ts'
export type {
  Catalog,
  CatalogEntry,
  RunEvent,
  Runs,
  SessionOptions,
  ToolSession,
} from './server-resources.ts'
export type { Sleep } from './wait.ts'

/** OpenTool servers in the words of their protocol. */
export { opentool }
