import type { JsonObject } from './json.ts'

/**
 * Questions of a running tool to the person behind the call. Tools and imported MCP servers ask them, protocols carry
 * them to the caller. Types only: each protocol decides which modes its callers support.
 */

/**
 * `key` distinguishes the questions of one call on protocols that answer them by name; without one they are numbered.
 * `untrusted`: a third party wrote the question.
 */
export type Elicitation =
  /** A few flat fields to fill in; never secrets (MCP-76). */
  | {
      readonly mode: 'form'
      readonly message: string
      /** Flat object schema of strings, numbers, booleans and choices. */
      readonly schema: JsonObject
      readonly key?: string
      readonly untrusted?: true
    }
  /** A page to open; accepting means "opened", not "done" (MCP-77). */
  | {
      readonly mode: 'url'
      readonly message: string
      readonly url: string
      readonly id: string
      readonly key?: string
      readonly untrusted?: true
    }
  /** Passed on for upstreams that ask it (MCP-81): the caller's model, and the folders it works in. */
  | { readonly mode: 'sampling'; readonly params: JsonObject; readonly key?: string }
  | { readonly mode: 'roots'; readonly key?: string }

export type ElicitationMode = Elicitation['mode']

export type ElicitationAnswer =
  /** The filled-in form, the message of the model, or the list of folders. */
  { readonly action: 'accept'; readonly content?: JsonObject } | { readonly action: 'decline' | 'cancel' }

/** Asks the caller. The answer is `cancel` when none arrives in time, or the caller has stopped waiting. */
export type Elicit = (question: Elicitation, signal: AbortSignal) => Promise<ElicitationAnswer>
