import type { Principal } from '#core/principal'
import type { CallServices } from './call-services.ts'

/** Whether a recorded tool is served, but not to this principal: then its calls are none either (rules 1 and 2). */
export function isHidden({ registry }: CallServices, principal: Principal, tool: string): boolean {
  return registry.has(tool) && registry.catalogFor(principal).get(tool) === undefined
}
