"""ASSA ABLOY: Vostio Access Management in the cloud and Visionline on the property, behind one port."""
