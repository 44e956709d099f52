import type { JsonObject } from '#core/json'

/** A question of a running tool to the person behind the call. */
export type Elicitation =
  | { readonly mode: 'form'; readonly message: string; readonly schema: JsonObject }
  | { readonly mode: 'url'; readonly message: string; readonly url: string; readonly id: string }

export type ElicitationAnswer =
  | { readonly action: 'accept'; readonly content?: JsonObject }
  | { readonly action: 'decline' | 'cancel' }
