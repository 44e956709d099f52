import { ColletClient } from './client.ts'
import * as opentool from './opentool.ts'
import { type ClientOptions, readOptions } from './options.ts'
import type { TypedClient } from './typed.ts'

/**
 * The public entry point `collet/client`: a browser-safe client of tool servers. Invariant: nothing it imports needs
 * Node.js or a package (imports.test.ts checks it).
 */

export type { JsonArray, JsonObject, JsonValue } from '#kernel/base/json'
export type { ToolFacts } from '#kernel/tool/facts'
export type {
  ClientDialect,
  FoundTools,
  RemoteAuthorization,
  RemoteRequirements,
  RemoteTool,
  ToolFamily,
} from '#protocols/otc/codec-client'
export type { FailureClass, RemoteChallenge, RemoteMissing } from '#protocols/otc/codec-client-reply'
export type { CallOptions, CallResult } from './call.ts'
export type { ColletClient, Health, TriedCall } from './client.ts'
export type { JwtOption, JwtSigning } from './credentials.ts'
export { CallFailure } from './failure.ts'
export type { Fetch, Sleep } from './http.ts'
export type { ClientOptions, ClientProtocol, RequirementResolvers } from './options.ts'
export type {
  Calls,
  Catalog,
  CatalogEntry,
  ReadResult,
  ReadResultOptions,
  RecordedCall,
  RunEvent,
  Runs,
  SessionOptions,
  ToolSession,
} from './server-resources.ts'
export type { ToolInput, ToolName, ToolOutput, TypedClient } from './typed.ts'

/**
 * Creates a client for the server at `url`. Sends nothing yet; throws `CallFailure` of class `config` on bad options.
 */
export function connect(url: string | URL, options?: ClientOptions): ColletClient
/** A client that knows its tools: `Tools` is the interface of `collet types`, or the type of tools written as code. */
export function connect<Tools extends object>(url: string | URL, options?: ClientOptions): TypedClient<Tools>
export function connect(url: string | URL, options: ClientOptions = {}): object {
  return new ColletClient(readOptions(url, options))
}

/** OpenTool servers, with the methods and names of their protocol. */
export { opentool }
