import type { JsonObject } from './json.ts'

/**
 * Questions from a running tool to the person behind the call. Tools and imported MCP servers ask them; protocols carry
 * them to the caller. This module has only types: each protocol decides which modes its callers support.
 */

/** `key` names a question on protocols that answer questions by name; questions without a key are numbered. */
export type Elicitation = { readonly key?: string } & (
  | Question
  /** Requests from upstream MCP servers (MCP-81): `sampling` for the caller's model, `roots` for the caller's folders. */
  | { readonly mode: 'sampling'; readonly params: JsonObject }
  | { readonly mode: 'roots' }
)

/**
 * `form`: a few flat fields to fill in (strings, numbers, booleans and choices), never secrets (MCP-76). `url`: a page to open;
 * accepting means "opened", not "done" (MCP-77). `untrusted`: a third party wrote the question.
 */
type Question = { readonly message: string; readonly untrusted?: true } & (
  | { readonly mode: 'form'; readonly schema: JsonObject }
  | { readonly mode: 'url'; readonly url: string; readonly id: string }
)

export type ElicitationMode = Elicitation['mode']

export type ElicitationAnswer =
  /** The filled-in form, the message of the model, or the list of folders. */
  { readonly action: 'accept'; readonly content?: JsonObject } | { readonly action: 'decline' | 'cancel' }

/** Asks the caller. The answer is `cancel` if no answer arrives in time, or if the caller has stopped waiting. */
export type Elicit = (question: Elicitation, signal: AbortSignal) => Promise<ElicitationAnswer>
