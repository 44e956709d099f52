import { useLocation } from '@tanstack/react-router'

/**
 * Inputs of calls that one page hands to another, by the record they are from. Only the record is in the history; the input stays
 * in memory, because the address and the history are visible to the next user of the browser.
 */
const inputs = new Map<string, unknown>()

export function handInput(record: string, input: unknown): void {
  inputs.set(record, input)
}

/** The input that was handed to the open page; `undefined` if there is none, or the page was reloaded since. */
export function useHandedInput(): unknown {
  const { inputOf } = useLocation().state
  return inputOf === undefined ? undefined : inputs.get(inputOf)
}

declare module '@tanstack/react-router' {
  interface HistoryState {
    inputOf?: string
  }
}
