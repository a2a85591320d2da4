// A wrapper for components that renders again only when a property has changed.

import { Component, type ComponentChildren, type FunctionComponent, h } from "preact";

export function memo<P extends object>(inner: FunctionComponent<P>): FunctionComponent<P> {
  class Memo extends Component<P> {
    override shouldComponentUpdate(next: Readonly<P>): boolean {
      const now = this.props as P;
      const names = new Set([...Object.keys(now), ...Object.keys(next)]) as Set<keyof P>;
      return [...names].some((name) => now[name] !== next[name]);
    }

    override render(): ComponentChildren {
      return h(inner, this.props as P);
    }
  }
  return Memo as unknown as FunctionComponent<P>;
}
