import { useLocation } from '@tanstack/react-router'

/**
 * Inputs that one page passes to another, keyed by the call record that contains them. The history stores only the record id. The
 * input stays in memory, because the next user of the browser can see the address and the history.
 */
const inputs = new Map<string, unknown>()

export function passInput(record: string, input: unknown): void {
  inputs.set(record, input)
}

/** The input that was passed to the open page; `undefined` if there is none or the page was reloaded in the meantime. */
export function usePassedInput(): unknown {
  const { inputOf } = useLocation().state
  return inputOf === undefined ? undefined : inputs.get(inputOf)
}

declare module '@tanstack/react-router' {
  interface HistoryState {
    inputOf?: string
  }
}
