import { isIPv4 } from 'node:net'

/** Whether a host name or address reaches only this machine: `localhost`, 127.0.0.0/8, `::1` or `[::1]`. */
export function isLoopback(host: string): boolean {
  const name = host.toLowerCase()
  return (
    name === 'localhost' || name === '::1' || name === '[::1]' || (isIPv4(name) && name.startsWith('127.'))
  )
}
