/** The way back to one client while its request is being answered. */
export interface Channel {
  /** Whether anything may be sent before the answer. */
  readonly canSend: boolean
  /** News may be left out for a slow reader; questions never are. */
  send(json: string, what: 'news' | 'question'): void
}

export const SILENT_CHANNEL: Channel = { canSend: false, send: () => undefined }
